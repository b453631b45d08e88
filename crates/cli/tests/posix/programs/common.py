# What every program here shares. A case is a function; it runs in a directory of its own that `setup` filled
# beforehand (in a lane: in the lower layer), in a process of its own, and returns something that JSON can say.
# Run as `setup DIR` or `run DIR`.
import ctypes, errno, fcntl, json, mmap, os, select, shutil, signal, socket, stat, struct, subprocess, sys, threading

CASES = {}
libc = ctypes.CDLL(None, use_errno=True)
T = 1_000_000_000_123_456_789
NOREPLACE, EXCHANGE, WHITEOUT = 1, 2, 4
AT_FDCWD = -100


def case(setup=None):
    def add(run):
        assert run.__name__ not in CASES, run.__name__
        CASES[run.__name__] = (setup, run)
        return run
    return add


def stamp(*paths):
    for path in paths:
        os.utime(path, ns=(T, T), follow_symlinks=False)


def put(path, data=b"hello\n", mode=0o644):
    with open(path, "wb") as file:
        file.write(data)
    os.chmod(path, mode)


def get(path):
    with open(path, "rb") as file:
        return file.read().decode("latin-1")


def standard():
    put("f")
    put("g", b"other\n")
    os.mkdir("e")
    os.symlink("f", "l")
    os.makedirs("d/sub")
    for name in ("d/a", "d/b", "d/sub/c"):
        put(name, name.encode())
    stamp("f", "g", "l", "d/a", "d/b", "d/sub/c", "d/sub", "d", "e")


def renameat2(old, new, flags=0, olddir=AT_FDCWD, newdir=AT_FDCWD):
    if libc.renameat2(olddir, os.fsencode(old), newdir, os.fsencode(new), flags) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def fails(act, *args, **more):
    """The name of the errno, or None."""
    try:
        act(*args, **more)
    except OSError as error:
        return errno.errorcode.get(error.errno, str(error.errno))
    return None


def inode(path):
    return os.lstat(path).st_ino


def tree(top=".", times=True):
    """What a user sees below `top`; times only where the fixture gave them."""
    found = {}

    def look(path, name):
        info = os.lstat(path)
        seen = [oct(info.st_mode)]
        if stat.S_ISREG(info.st_mode) and info.st_mode & 0o400:
            seen.append(get(path))
        elif stat.S_ISLNK(info.st_mode):
            seen.append(os.readlink(path))
        if times and info.st_mtime_ns == T:
            seen.append("T")
        if not stat.S_ISLNK(info.st_mode):
            for attr in sorted(os.listxattr(path)):
                if attr.startswith("user."):
                    seen.append(attr + "=" + os.getxattr(path, attr).decode())
        found[name] = seen
        if stat.S_ISDIR(info.st_mode):
            try:
                names = sorted(os.listdir(os.fsencode(path)))
            except PermissionError:
                return
            for below in names:
                look(os.path.join(os.fsencode(path), below), name + "/" + below.decode("latin-1"))

    look(os.fsencode(top), "")
    found.pop("")
    return found


def in_child(act):
    """Runs `act` in a child; its JSON-able answer."""
    come, go = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(come)
        signal.alarm(30)
        try:
            answer = act()
        except OSError as error:
            answer = "error " + errno.errorcode.get(error.errno, str(error.errno)) + " " + str(error)
        except BaseException as error:
            answer = "error " + repr(error)
        with os.fdopen(go, "w") as out:
            out.write(json.dumps(answer, default=lambda raw: raw.decode("latin-1")))
        os._exit(0)
    os.close(go)
    with os.fdopen(come) as text:
        said = text.read()
    _, status = os.waitpid(pid, 0)
    return json.loads(said) if said else "died " + str(status)


def main():
    top = os.path.realpath(sys.argv[2])
    if sys.argv[1] == "setup":
        for name, (setup, _) in CASES.items():
            os.mkdir(os.path.join(top, name))
            os.chdir(os.path.join(top, name))
            (setup or standard)()
        return
    results = {}
    only = sys.argv[3:]
    for name, (_, run) in CASES.items():
        if only and name not in only:
            continue
        os.chdir(os.path.join(top, name))
        results[name] = in_child(run)
    json.dump(results, sys.stdout, indent=1, sort_keys=True)
