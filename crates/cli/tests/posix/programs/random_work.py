# Random work in the working directory. `fixture SEED` fills it, `work SEED PHASE COUNT` changes it; both are the
# same for the same seed on equal trees. Prints what was done and the errno that came of it.
import ctypes, errno, os, random, stat, sys

libc = ctypes.CDLL(None, use_errno=True)
OLD = 1_100_000_000_000_000_001
NAMES = [b"a", b"b", b"c.txt", b"d", b"Makefile", b".envrc", b"x y", b"new\nline", b"\xff\xfe", b"-rf", b"caf\xc3\xa9",
         # As root a moved directory's old path must be shorter than 256 bytes (docs/limits.md).
         b"n" * (255 if os.geteuid() else 20)]


def entries(top=b"."):
    """Every path below `top`, sorted, links not followed."""
    found = []
    for name in sorted(os.listdir(top)):
        path = name if top == b"." else os.path.join(top, name)
        found.append(path)
        if stat.S_ISDIR(os.lstat(path).st_mode):
            try:
                found += entries(path)
            except PermissionError:
                pass
    return found


def kind(path):
    try:
        return stat.S_IFMT(os.lstat(path).st_mode)
    except OSError:
        return 0


def remove(path, at=None):
    """Removes a directory, by descriptors and in sorted order: what a removal that is refused half way leaves depends on it."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=at)
    try:
        for name in sorted(os.listdir(fd)):
            if stat.S_ISDIR(os.stat(name, dir_fd=fd, follow_symlinks=False).st_mode):
                remove(name, fd)
            else:
                os.unlink(name, dir_fd=fd)
    finally:
        os.close(fd)
    os.rmdir(path, dir_fd=at)


class Work:
    def __init__(self, seed):
        self.random = random.Random(seed)

    def data(self):
        size = self.random.choice([0, 1, 20, 500, 5000, 70_000])
        lines = [b"line %d\n" % self.random.randrange(50) for _ in range(size // 7)]
        return b"".join(lines) + (b"\0end" if self.random.random() < 0.2 else b"")

    def any(self, wanted=None):
        paths = [path for path in entries() if wanted is None or kind(path) == wanted]
        return self.random.choice(paths) if paths else b"missing"

    def file(self):
        return self.any(stat.S_IFREG)

    def dir(self):
        return self.any(stat.S_IFDIR)

    def fresh(self):
        dirs = [b"."] + [path for path in entries() if kind(path) == stat.S_IFDIR and path.count(b"/") < 4 and len(path) < 2000]
        return os.path.join(self.random.choice(dirs), self.random.choice(NAMES)).removeprefix(b"./")

    def target(self):
        return self.fresh() if self.random.random() < 0.7 else self.any()

    def create(self):
        path = self.fresh()
        # A pipe, at the end of a link too, would be waited for.
        with open(path, "wb", opener=lambda path, flags: os.open(path, flags | os.O_NONBLOCK, 0o666)) as file:
            file.write(self.data())
        return path

    def append(self):
        path = self.file()
        with open(path, "ab") as file:
            file.write(self.data())
        return path

    def overwrite(self):
        path = self.file()
        with open(path, "r+b") as file:
            file.seek(self.random.randrange(100))
            file.write(b"OVER")
        return path

    def same(self):
        path = self.file()
        with open(path, "rb") as file:
            data = file.read()
        with open(path, "wb") as file:
            file.write(data)
        return path

    def touch(self):
        path = self.any()
        when = OLD + self.random.randrange(1000) * 1_000_000_007
        os.utime(path, ns=(when, when), follow_symlinks=False)
        return path

    def truncate(self):
        path = self.file()
        os.truncate(path, self.random.choice([0, 3, 100, 200_000]))
        return path

    def sparse(self):
        path = self.file()
        with open(path, "r+b") as file:
            file.seek(self.random.randrange(1 << 20))
            file.write(b"far")
        return path

    def chmod(self):
        path = self.any()
        if kind(path) == stat.S_IFLNK:
            return path
        modes = [0o755, 0o700, 0o750, 0o555, 0o2755, 0o1777] if kind(path) == stat.S_IFDIR else [0o644, 0o600, 0o755, 0o444, 0o664]
        # Root ignores modes outside, and does not inside (docs/limits.md).
        os.chmod(path, self.random.choice(modes) | (0o200 if os.geteuid() == 0 else 0))
        return path

    def mkdir(self):
        path = self.fresh()
        os.mkdir(path)
        return path

    def rmdir(self):
        path = self.dir()
        os.rmdir(path)
        return path

    def unlink(self):
        path = self.any()
        os.unlink(path)
        return path

    def rmtree(self):
        path = self.dir()
        # Not the largest: something has to be left to work on.
        if len(entries(path)) < 15:
            remove(path)
        return path

    def rename(self):
        old, new = self.any(), self.target()
        os.rename(old, new)
        return old + b" > " + new

    def rename_dir(self):
        old, new = self.dir(), self.target()
        os.rename(old, new)
        return old + b" > " + new

    def exchange(self):
        one, two = self.any(), self.any()
        if libc.renameat2(-100, one, -100, two, 2) != 0:
            raise OSError(ctypes.get_errno(), "exchange")
        return one + b" <> " + two

    def link(self):
        old, new = self.file(), self.fresh()
        os.link(old, new, follow_symlinks=False)
        return old + b" = " + new

    def symlink(self):
        path = self.fresh()
        os.symlink(self.random.choice([b"a", b"../b", b"nowhere", b"d/c.txt", b"\xff"]), path)
        return path

    def mkfifo(self):
        path = self.fresh()
        os.mkfifo(path, 0o640)
        return path

    def dir_to_file(self):
        path = self.dir()
        if len(entries(path)) < 15:
            remove(path)
            with open(path, "wb") as file:
                file.write(self.data())
        return path

    def file_to_dir(self):
        path = self.file()
        os.unlink(path)
        os.mkdir(path)
        with open(os.path.join(path, b"in"), "wb") as file:
            file.write(self.data())
        return path

    def remake_dir(self):
        path = self.dir()
        if len(entries(path)) < 15:
            remove(path)
            os.mkdir(path)
            with open(os.path.join(path, self.random.choice(NAMES)), "wb") as file:
                file.write(b"made anew\n")
        return path

    def setxattr(self):
        path = self.any()
        if kind(path) in (stat.S_IFREG, stat.S_IFDIR):
            os.setxattr(path, self.random.choice(["user.color", "user.x"]), self.data()[:100])
        return path

    def removexattr(self):
        path = self.any()
        names = [name for name in os.listxattr(path, follow_symlinks=False) if name.startswith("user.")]
        if names:
            os.removexattr(path, self.random.choice(sorted(names)), follow_symlinks=False)
        return path


ACTS = {
    Work.create: 12, Work.append: 6, Work.overwrite: 6, Work.same: 2, Work.touch: 4, Work.truncate: 4, Work.sparse: 2, Work.chmod: 8,
    Work.mkdir: 8, Work.rmdir: 3, Work.unlink: 5, Work.rmtree: 2, Work.rename: 8, Work.rename_dir: 10, Work.exchange: 5, Work.link: 4,
    Work.symlink: 4, Work.mkfifo: 2, Work.dir_to_file: 2, Work.file_to_dir: 3, Work.remake_dir: 2, Work.setxattr: 5, Work.removexattr: 2,
}


def go(work, acts, count):
    for _ in range(count):
        act = work.random.choices(list(acts), list(acts.values()))[0]
        try:
            said = act(work)
        except OSError as error:
            said = errno.errorcode[error.errno].encode()
        print(act.__name__, said, flush=True)


def main():
    os.umask(0o022)
    seed = sys.argv[2]
    if sys.argv[1] == "fixture":
        making = [Work.create, Work.mkdir, Work.symlink, Work.mkfifo, Work.chmod, Work.setxattr, Work.sparse]
        go(Work(seed), dict(zip(making, [30, 12, 4, 1, 6, 5, 1])), 120)
        for path in entries():
            os.utime(path, ns=(OLD, OLD), follow_symlinks=False)
    else:
        go(Work(seed + "/" + sys.argv[3]), ACTS, int(sys.argv[4]))


main()
