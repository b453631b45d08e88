//! Sandboxes that programs bring themselves: shut by default, working with `--nest`, and what the lane hides stays hidden from
//! them.

use testkit::{Who, require};

use crate::world::{World, everybody};

const BWRAP: &str = "bwrap --unshare-all --die-with-parent --ro-bind / / --dev /dev --proc /proc --tmpfs /tmp sh -c \
    'echo in; echo x > /tmp/y && cat /tmp/y; touch /usr/attack 2>/dev/null && echo wrote; cat \"$HOME/.ssh/id\" 2>/dev/null; ls /proc | grep -c \"^[0-9]\"'";

#[test]
fn bubblewrap_nests_where_it_is_allowed_and_shows_nothing_that_the_lane_hides() {
    require::program("bwrap");
    let world = World::new(Who::User);
    let ran = world.run(&["run", "-n", "shut", "--", "sh", "-c", BWRAP]);
    assert!(ran.code != Some(0) && ran.out().is_empty(), "{ran}");
    let ran = world.ok(&["run", "-n", "open", "--nest", "--", "sh", "-c", BWRAP]);
    let out = ran.out();
    assert!(out.starts_with("in\nx\n") && !out.contains("PRECIOUS") && !out.contains("wrote"), "{ran}");
    let shown = world.env.json(&world.project, &["show", "open"]);
    let walls = shown["runs"][0]["walls"].to_string();
    assert!(walls.contains("--nest"), "{walls}");
    // Who joins it nests as well.
    world.ok(&["run", "-n", "live", "-d", "--nest", "--", "sleep", "1000"]);
    assert!(world.ok(&["exec", "live", "--", "sh", "-c", BWRAP]).out().starts_with("in\n"));
    world.ok(&["stop", "live"]);
}

#[test]
fn inside_a_nested_namespace_no_mask_comes_off() {
    const TRY: &str = r#"
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
uid, gid = os.getuid(), os.getgid()
assert libc.unshare(0x10000000 | 0x20000) == 0, ctypes.get_errno()
open('/proc/self/setgroups', 'w').write('deny')
open('/proc/self/uid_map', 'w').write('0 %d 1' % uid)
open('/proc/self/gid_map', 'w').write('0 %d 1' % gid)
home = os.environ['HOME']
def tried(what, back): print(what, 'done' if back == 0 else 'refused')
tried('remount', libc.mount(None, b'/usr', None, 0x1020, None))
for at in [b'/proc', b'/sys/devices/system', home.encode(), os.getcwd().encode(), b'/usr', b'/etc']:
    tried('unmount ' + at.decode().replace(home, '~'), libc.umount2(at, 2))
print('key', os.path.exists(home + '/.ssh/id'))
try: open('/usr/attack', 'w'); print('wrote')
except OSError: print('read-only')
try: open(os.environ['OUT'] + '/secret', 'a'); print('wrote outside')
except OSError: print('outside is read-only')
"#;
    let world = World::new(Who::User);
    let out = world.env.root().join("out");
    let env = format!("OUT={}", out.display());
    let ran = world.ok(&["run", "-n", "a", "--nest", "--env", &env, "--", "/usr/bin/python3", "-c", TRY]);
    let text = ran.out();
    assert!(!text.contains(" done"), "{text}");
    assert!(
        text.contains("key False") && text.contains("\nread-only") && text.contains("outside is read-only"),
        "{text}"
    );
    assert_eq!(std::fs::read(out.join("secret")).unwrap(), b"PRECIOUS\n");
}

#[test]
fn chromium_runs_with_its_own_sandbox_where_it_may_nest() {
    require::program("chromium");
    let world = World::new(Who::User);
    world.env.write(
        &world.project.join("page.html"),
        b"<title>t</title><p id=x></p><script>x.textContent = 6 * 7</script>\n",
    );
    let script = "chromium --headless --disable-gpu --dump-dom --user-data-dir=/tmp/c file://$PWD/page.html 2>/tmp/err; grep -c 'No usable sandbox' /tmp/err";
    let ran = world.run(&["run", "-n", "open", "--nest", "--", "sh", "-c", script]);
    assert!(ran.out().contains("<p id=\"x\">42</p>"), "{ran}");
    let ran = world.run(&["run", "-n", "shut", "--", "sh", "-c", script]);
    assert!(!ran.out().contains("42") && ran.out().trim_end().ends_with('1'), "{ran}");
}

#[test]
fn root_is_told_why_nothing_nests() {
    everybody(|world| {
        if world.env.who() == Who::User {
            return;
        }
        let ran = world.run(&["run", "-n", "a", "--nest", "--", "touch", "ran"]);
        assert!(ran.code == Some(125) && ran.err().contains("--nest does nothing for root"), "{ran}");
    });
}
