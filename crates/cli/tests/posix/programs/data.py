# Content: holes, mappings, descriptors over the first write, locks.


@case()
def append_goes_to_the_end_whatever_the_offset():
    file = os.open("f", os.O_WRONLY | os.O_APPEND)
    os.lseek(file, 0, os.SEEK_SET)
    os.write(file, b"x")
    return get("f")


@case()
def two_appenders_do_not_overwrite_one_another():
    one, two = (os.open("f", os.O_WRONLY | os.O_APPEND) for _ in range(2))
    for letter in b"abc":
        os.write(one, bytes([letter]))
        os.write(two, bytes([letter]))
    return get("f")


@case()
def truncation_shortens_and_lengthens():
    os.truncate("f", 2)
    with open("g", "r+b") as file:
        os.ftruncate(file.fileno(), 10)
    return [get("f"), get("g")]


@case()
def exclusive_creation_over_an_entry_and_over_a_deleted_one():
    flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY
    first = fails(os.open, "f", flags)
    os.unlink("f")
    second = fails(os.open, "f", flags)
    return [first, second, fails(os.open, "l", flags), get("f")]


@case()
def an_anonymous_file_gets_a_name():
    file = os.open(".", os.O_TMPFILE | os.O_RDWR, 0o640)
    os.write(file, b"anonymous")
    follow = 0x400
    if libc.linkat(AT_FDCWD, f"/proc/self/fd/{file}".encode(), AT_FDCWD, b"named", follow) != 0:
        return errno.errorcode[ctypes.get_errno()]
    info = os.stat("named")
    return [get("named"), oct(info.st_mode), info.st_nlink]


@case()
def fallocate_reserves_and_lengthens():
    with open("f", "r+b") as file:
        os.posix_fallocate(file.fileno(), 0, 1 << 20)
    info = os.stat("f")
    return [info.st_size, info.st_blocks * 512 >= 1 << 20, get("f")[:6]]


def full():
    put("f", b"x" * (1 << 20))


@case(full)
def a_punched_hole_reads_as_zeros():
    with open("f", "r+b") as file:
        answer = libc.fallocate(file.fileno(), 3, ctypes.c_long(65536), ctypes.c_long(131072))
        os.fsync(file.fileno())
        hole = os.lseek(file.fileno(), 0, os.SEEK_HOLE)
    data = get("f")
    return [answer, len(data), data[65535:65538], data[65536 + 131071:65536 + 131074], hole]


def sparse():
    with open("f", "wb") as file:
        file.seek(16 << 20)
        file.write(b"end")


@case(sparse)
def holes_stay_holes_over_the_first_write():
    with open("f", "r+b") as file:
        file.write(b"begin")
        os.fsync(file.fileno())
        hole = os.lseek(file.fileno(), 0, os.SEEK_HOLE)
        data = os.lseek(file.fileno(), hole, os.SEEK_DATA)
    info = os.stat("f")
    return [info.st_size, info.st_blocks * 512 < 1 << 20, hole < 1 << 20, data > 15 << 20]


@case()
def an_unlinked_open_file_lives_on():
    with open("f", "r+b") as file:
        os.unlink("f")
        file.seek(0, 2)
        file.write(b"more")
        file.flush()
        file.seek(0)
        return [file.read().decode(), os.fstat(file.fileno()).st_nlink, os.path.exists("f")]


@case()
def a_read_only_descriptor_sees_the_first_write():
    early = os.open("f", os.O_RDONLY)
    with open("f", "r+b") as file:
        file.write(b"HELLO")
    return os.pread(early, 5, 0).decode()


@case()
def a_descriptor_of_the_first_writer_sees_the_second():
    early = os.open("f", os.O_RDWR)
    with open("f", "r+b") as file:
        file.write(b"HELLO")
    return os.pread(early, 5, 0).decode()


@case()
def a_shared_read_only_mapping_sees_the_first_write():
    with open("f", "rb") as early:
        view = mmap.mmap(early.fileno(), 0, mmap.MAP_SHARED, mmap.PROT_READ)
        with open("f", "r+b") as file:
            file.write(b"HELLO")
        return view[:5].decode()


@case()
def a_shared_mapping_writes_the_file():
    with open("f", "r+b") as file:
        view = mmap.mmap(file.fileno(), 0)
        view[:5] = b"HELLO"
        view.flush()
        view.close()
    return [get("f"), os.stat("f").st_mtime_ns > T]


@case()
def a_private_mapping_leaves_the_file_alone():
    with open("f", "rb") as file:
        view = mmap.mmap(file.fileno(), 0, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE)
        view[:5] = b"HELLO"
        return [view[:5].decode(), get("f")]


@case()
def a_file_is_replaced_under_a_mapping():
    with open("f", "rb") as file:
        view = mmap.mmap(file.fileno(), 0, mmap.MAP_SHARED, mmap.PROT_READ)
    put("new", b"new\n")
    os.rename("new", "f")
    return [view[:5].decode(), get("f")]


@case()
def content_is_copied_in_the_kernel():
    source, target = os.open("f", os.O_RDONLY), os.open("t", os.O_CREAT | os.O_RDWR, 0o644)
    sent = os.sendfile(target, source, 0, 100)
    copied = os.copy_file_range(source, os.open("g", os.O_WRONLY), 100, 0, 0)
    return [sent, copied, get("t"), get("g")]


@case()
def flock_excludes_another_process():
    mine = os.open("f", os.O_RDONLY)
    fcntl.flock(mine, fcntl.LOCK_EX)

    def other():
        file = os.open("f", os.O_RDONLY)
        return [fails(fcntl.flock, file, fcntl.LOCK_EX | fcntl.LOCK_NB), fails(fcntl.flock, file, fcntl.LOCK_SH | fcntl.LOCK_NB)]

    held = in_child(other)
    fcntl.flock(mine, fcntl.LOCK_UN)
    return [held, in_child(other)]


def locks_between_descriptors(mine):
    fcntl.lockf(mine, fcntl.LOCK_EX, 3, 0)

    def other():
        file = os.open("f", os.O_RDWR)
        return [fails(fcntl.lockf, file, fcntl.LOCK_EX | fcntl.LOCK_NB, 3, start) for start in (0, 2, 3)]

    return in_child(other)


@case()
def record_locks_exclude_another_process_by_range():
    return locks_between_descriptors(os.open("f", os.O_RDWR))


@case()
def a_record_lock_taken_before_the_first_write_still_excludes():
    early = os.open("f", os.O_RDONLY)
    fcntl.lockf(early, fcntl.LOCK_SH, 3, 0)
    keep = open("f", "ab")
    keep.write(b"x")
    keep.flush()

    def other():
        file = os.open("f", os.O_RDWR)
        return fails(fcntl.lockf, file, fcntl.LOCK_EX | fcntl.LOCK_NB, 3, 0)

    return in_child(other)


@case()
def a_flock_taken_before_the_first_write_still_excludes():
    early = os.open("f", os.O_RDONLY)
    fcntl.flock(early, fcntl.LOCK_EX)
    with open("f", "ab") as file:
        file.write(b"x")

    def other():
        return fails(fcntl.flock, os.open("f", os.O_RDONLY), fcntl.LOCK_EX | fcntl.LOCK_NB)

    return in_child(other)


@case()
def descriptor_locks_exclude_within_one_process():
    lock = struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 0, 0, 0)
    one, two = os.open("f", os.O_RDWR), os.open("f", os.O_RDWR)
    fcntl.fcntl(one, 37, lock)
    return fails(fcntl.fcntl, two, 37, lock)


@case()
def a_lock_is_held_by_a_waiting_process_in_turn():
    mine = os.open("f", os.O_RDWR)
    fcntl.lockf(mine, fcntl.LOCK_EX)
    come, go = os.pipe()
    pid = os.fork()
    if pid == 0:
        file = os.open("f", os.O_RDWR)
        os.write(go, b"asks;")
        fcntl.lockf(file, fcntl.LOCK_EX)
        os.write(go, b"has;")
        os._exit(0)
    said = os.read(come, 5)
    os.write(mine, b"FIRST")
    fcntl.lockf(mine, fcntl.LOCK_UN)
    os.waitpid(pid, 0)
    return [said.decode() + os.read(come, 9).decode(), get("f")]


@case()
def a_lease_is_granted_on_a_file_that_nobody_has_open():
    file = os.open("f", os.O_RDONLY)
    return fails(fcntl.fcntl, file, fcntl.F_SETLEASE, fcntl.F_RDLCK)


@case()
def direct_io_reads_what_was_written():
    put("big", b"x" * 8192)
    try:
        file = os.open("big", os.O_RDONLY | os.O_DIRECT)
    except OSError as error:
        return errno.errorcode[error.errno]
    area = mmap.mmap(-1, 8192)
    return [os.readv(file, [area]), bytes(area[:3]).decode()]


@case()
def syncing_a_file_and_its_directory_succeeds():
    with open("f", "ab") as file:
        file.write(b"x")
        return [fails(os.fsync, file.fileno()), fails(os.fdatasync, file.fileno()), fails(os.fsync, os.open(".", os.O_RDONLY))]
