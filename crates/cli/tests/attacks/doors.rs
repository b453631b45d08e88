//! Doors of the host that are opened by name, with real services behind them; every other stays shut.

use testkit::{Ran, Running, Who, require};

use crate::world::{SOON, World, everybody};

/// Runs a shell script on the host as the world's person, with `$LANE` and `$PROJECT`.
fn host(world: &World, script: &str) -> Ran {
    let mut command = world.env.command("/bin/bash");
    command
        .args(["-c", script])
        .env("LANE", world.env.lane_program())
        .env("PROJECT", &world.project)
        .current_dir(&world.project);
    command.env("XDG_RUNTIME_DIR", world.env.tmp());
    Running::start(command).wait(SOON)
}

#[test]
fn b50_an_ssh_agent_signs_commits_where_it_is_let_in_and_nowhere_else() {
    for program in ["ssh-agent", "ssh-add", "ssh-keygen", "git"] {
        require::program(program);
    }
    const SCRIPT: &str = r#"
set -e
eval "$(ssh-agent -s)" >/dev/null; trap 'kill $SSH_AGENT_PID' EXIT
ssh-keygen -q -t ed25519 -N '' -f "$HOME/.ssh/key"; ssh-add -q "$HOME/.ssh/key"
export KEY="key::$(cat "$HOME/.ssh/key.pub")"
sign='git -c gpg.format=ssh -c user.signingkey="$KEY" commit -S --allow-empty -qm signed && git cat-file commit HEAD | grep -c "BEGIN SSH SIGNATURE"'
"$LANE" run -n open --door ssh-agent --env KEY -- sh -c "$sign; test ! -e \$HOME/.ssh && echo no-keys"
"$LANE" run -n shut --env KEY -- sh -c "ssh-add -l" && exit 9
"$LANE" run -n shut --env KEY -- sh -c "SSH_AUTH_SOCK=$SSH_AUTH_SOCK ssh-add -l" && exit 9
"$LANE" run -n live -d --door ssh-agent -- sleep 1000
"$LANE" exec live -- ssh-add -l | grep -c ED25519
"$LANE" stop live
echo end
"#;
    everybody(|world| {
        let ran = host(world, SCRIPT);
        assert_eq!(
            ran.out().lines().collect::<Vec<_>>(),
            ["1", "no-keys", "1", "end"],
            "{:?}: {ran}",
            world.env.who()
        );
        assert!(ran.err().contains("--door ssh-agent") && ran.err().contains("sign with every key"), "{ran}");
    });
}

#[test]
fn b50_a_gpg_agent_signs_without_its_keys_being_seen() {
    for program in ["gpg", "gpg-agent", "git"] {
        require::program(program);
    }
    const SCRIPT: &str = r#"
set -e
export GNUPGHOME="$HOME/.gnupg"; mkdir -m 700 -p "$GNUPGHOME"
gpg --batch -q --pinentry-mode loopback --passphrase '' --quick-gen-key 'T <tester@example.org>' ed25519 sign never 2>/dev/null
trap 'gpgconf --kill gpg-agent' EXIT
unset GNUPGHOME
gpg-connect-agent /bye
sign='git -c user.signingkey=tester@example.org commit -S --allow-empty -qm signed && git cat-file commit HEAD | grep -c "BEGIN PGP SIGNATURE"'
"$LANE" run -n open --door gpg-agent -- sh -c "$sign; ls \$HOME/.gnupg/private-keys-v1.d 2>/dev/null; true"
"$LANE" run -n shut -- sh -c "$sign" && exit 9
echo end
"#;
    everybody(|world| {
        let ran = host(world, SCRIPT);
        assert_eq!(ran.out().lines().collect::<Vec<_>>(), ["1", "end"], "{:?}: {ran}", world.env.who());
    });
}

#[test]
fn b50_a_session_bus_is_reached_by_name_only() {
    for program in ["dbus-daemon", "dbus-send"] {
        require::program(program);
    }
    const SCRIPT: &str = r#"
set -e
dbus-daemon "--session" --fork --print-address=3 --print-pid=4 --address="unix:path=$XDG_RUNTIME_DIR/bus" 3>"$HOME/address" 4>"$HOME/pid"
trap 'kill $(cat "$HOME/pid")' EXIT
export DBUS_SESSION_BUS_ADDRESS="$(cat "$HOME/address")"
ask='dbus-send "--session" --print-reply --dest=org.freedesktop.DBus / org.freedesktop.DBus.ListNames >/dev/null 2>&1 && echo reached || echo shut'
"$LANE" run -n open --door session-bus -- sh -c "$ask"
"$LANE" run -n shut -- sh -c "$ask"
"$LANE" run -n shut -- sh -c "export DBUS_SESSION_BUS_ADDRESS='$DBUS_SESSION_BUS_ADDRESS'; $ask"
"#;
    let world = World::new(Who::User);
    let ran = host(&world, SCRIPT);
    // In /srv the socket lies where a lane shows the host's directories; so it is put where none does.
    let lines: Vec<String> = ran.out().lines().map(str::to_owned).collect();
    assert_eq!(lines.first().map(String::as_str), Some("reached"), "{ran}");
    assert_eq!(lines.get(1).map(String::as_str), Some("shut"), "{ran}");
}

#[test]
fn a_door_that_leads_nowhere_or_is_none_stops_the_run() {
    everybody(|world| {
        for (door, word) in
            [("docker", "leads nowhere"), ("wayland", "leads nowhere"), ("window", "there is no door")]
        {
            let ran = world.run(&["run", "-n", "a", "--door", door, "--", "touch", "ran"]);
            assert!(ran.code == Some(125) || ran.code == Some(2), "{ran}");
            assert!(ran.err().contains(word), "{ran}");
        }
        world.ok(&["run", "-n", "b", "-d", "--", "sleep", "1000"]);
        let ran = world.run(&["run", "-n", "b", "--door", "docker", "--", "true"]);
        assert!(ran.code == Some(125) && ran.err().contains("--door"), "{ran}");
        world.ok(&["stop", "b"]);
    });
}
