//! Virtual environments: one made inside, one made outside, each with packages from the index.

use testkit::{Listing, Running};

use crate::ground::{Ground, LONG, each};

fn host_venv(ground: &Ground, args: &[&str]) {
    let mut python = ground.env.command(testkit::require::program("python3"));
    // The system's own: another one, in somebody's home, may come first on the path.
    python.args(["-m", "venv", ".venv"]).args(args).current_dir(&ground.project);
    Running::start(python).wait(LONG).expect_code(0);
    ground.write(".gitignore", ".venv/\n");
    ground.env.git_init(&ground.project);
}

#[test]
fn pip_installs_into_a_virtual_environment_that_is_made_in_the_lane() {
    each(|ground| {
        let before = Listing::of(&ground.project);
        let ran = ground.sh(
            "p",
            "/usr/bin/python3 -m venv env
             . env/bin/activate
             pip install -q six
             python -c 'import six, sys; print(six.__file__); print(sys.prefix)'",
        );
        let lines: Vec<String> = ran.out().lines().map(str::to_owned).collect();
        let env = ground.project.join("env").display().to_string();
        assert!(lines[0].starts_with(&env) && lines[1] == env, "{ran}");
        before.assert_same(&Listing::of(&ground.project));
    });
}

#[test]
fn pip_installs_pytest_into_a_virtual_environment_of_the_host_and_its_tests_run() {
    each(|ground| {
        host_venv(ground, &[]);
        ground.write(
            "test_it.py",
            "import pathlib\n\ndef test_sum(tmp_path):\n    (tmp_path / 'a').mkdir()\n    \
             (tmp_path / 'a').rename(tmp_path / 'b')\n    assert pathlib.Path('README.md').exists()\n",
        );
        let before = Listing::of(&ground.project);
        let ran = ground.sh("p", ".venv/bin/pip install -q pytest; .venv/bin/pytest -q");
        assert!(ran.out().contains("1 passed"), "{ran}");
        // A package of the original is taken away inside, and pip itself renames what it removes.
        ground.sh("p", ".venv/bin/pip uninstall -q -y pip; test ! -e .venv/bin/pip");
        before.assert_same(&Listing::of(&ground.project));
    });
}

#[test]
fn pytest_spreads_its_tests_over_processes_in_a_lane() {
    each(|ground| {
        host_venv(ground, &[]);
        ground.write(
            "test_many.py",
            "import pathlib, pytest\n\n@pytest.mark.parametrize('n', range(40))\ndef test_one(n, worker_id):\n    \
             pathlib.Path('by-' + worker_id).touch()\n    assert n < 40\n",
        );
        let before = Listing::of(&ground.project);
        let ran = ground
            .sh("p", ".venv/bin/pip install -q pytest pytest-xdist; .venv/bin/pytest -q -n 3; ls -d by-*");
        assert!(ran.out().contains("40 passed"), "{ran}");
        // Each process has the view: more than one had work to do.
        assert!(ran.out().contains("by-gw0\n") && ran.out().contains("by-gw1\n"), "{ran}");
        before.assert_same(&Listing::of(&ground.project));
    });
}
