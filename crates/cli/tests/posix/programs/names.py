# Names, links, special files, listings, watches.


def odd():
    for name in (b"bad\xff", b"new\nline", b"tab\tq", b" lead", b"trail ", b"-rf", b"caf\xc3\xa9", b"cafe\xcc\x81", b"x" * 255):
        put(name, name)


@case(odd)
def names_are_bytes():
    names = sorted(os.listdir(b"."))
    for name in names:
        with open(name, "ab") as file:
            file.write(b"+")
    return {name.decode("latin-1"): get(name) for name in names}


@case()
def a_name_of_255_bytes_is_made_and_one_of_256_refused():
    put(b"y" * 255)
    return [os.path.exists(b"y" * 255), fails(put, b"y" * 256)]


@case()
def a_link_to_a_file_is_one_file():
    os.link("f", "h")
    with open("h", "ab") as file:
        file.write(b"x")
    return [get("f"), os.stat("f").st_nlink, os.stat("h").st_nlink]


@case()
def both_names_of_a_new_link_have_one_inode_number():
    os.link("f", "h")
    return inode("f") == inode("h")


def linked():
    put("f")
    os.link("f", "h")


@case(linked)
def links_made_before_stay_one_file_over_a_write():
    with open("f", "ab") as file:
        file.write(b"x")
    return [get("f"), get("h")]


@case(linked)
def links_made_before_count_right_over_a_write():
    seen = [os.stat("f").st_nlink]
    with open("f", "ab") as file:
        file.write(b"x")
    return seen + [os.stat("f").st_nlink, os.stat("h").st_nlink, inode("f") == inode("h")]


@case(linked)
def unlinking_one_of_two_names_counts_down():
    os.unlink("h")
    return os.stat("f").st_nlink


@case()
def linking_onto_an_entry_and_a_directory_is_refused():
    return [fails(os.link, "f", "g"), fails(os.link, "d", "x"), fails(os.link, "missing", "x")]


@case()
def a_link_is_made_to_a_link_itself():
    os.link("l", "m", follow_symlinks=False)
    return [os.readlink("m"), os.lstat("l").st_nlink]


@case()
def links_in_a_circle_are_refused():
    os.symlink("b", "a")
    os.symlink("a", "b")
    return [fails(os.stat, "a"), fails(os.open, "a", os.O_RDONLY), fails(os.open, "l", os.O_RDONLY | os.O_NOFOLLOW)]


@case()
def writing_through_a_link_changes_its_target():
    with open("l", "ab") as file:
        file.write(b"x")
    return [get("f"), os.path.islink("l")]


@case()
def a_deleted_name_is_gone_until_it_is_made_again():
    os.unlink("f")
    seen = [os.path.exists("f"), "f" in os.listdir("."), fails(os.unlink, "f")]
    os.mkdir("f")
    return seen + [os.listdir("f"), tree()]


@case()
def a_directory_made_anew_is_empty():
    shutil.rmtree("d")
    os.mkdir("d")
    put("d/only")
    return tree("d")


@case()
def a_directory_is_replaced_by_a_file_and_back():
    shutil.rmtree("d")
    put("d")
    os.unlink("d")
    os.makedirs("d/a")
    return tree()


@case()
def removing_what_is_not_empty_or_of_the_other_type_is_refused():
    return [fails(os.rmdir, "d"), fails(os.rmdir, "f"), fails(os.unlink, "d"), fails(os.mkdir, "d"), fails(os.mkdir, "f")]


@case()
def link_counts_of_directories_follow_their_subdirectories():
    before = os.stat("d").st_nlink
    os.mkdir("d/more")
    after = os.stat("d").st_nlink
    os.rmdir("d/more")
    os.rmdir("e")
    return [before, after - before, os.stat("d").st_nlink - before]


def many():
    for number in range(300):
        put(f"n{number:03}", b"")


@case(many)
def a_listing_goes_on_while_its_entries_are_deleted():
    seen = 0
    for entry in os.scandir("."):
        os.unlink(entry.name)
        seen += 1
    return [seen, os.listdir(".")]


@case(many)
def a_listing_that_was_begun_does_not_lose_old_names_when_new_ones_come():
    listing = os.scandir(".")
    first = next(listing).name
    for number in range(300):
        put(f"m{number:03}", b"")
    seen = {first} | {entry.name for entry in listing}
    return [all(f"n{number:03}" in seen for number in range(300)), len(os.listdir("."))]


@case()
def a_listing_has_each_name_once_after_changes():
    with open("f", "ab") as file:
        file.write(b"x")
    os.unlink("g")
    put("g")
    put("new")
    return [os.listdir("d").__len__(), sorted(os.listdir("."))]


@case()
def entry_types_of_a_listing_are_right():
    os.mkfifo("p")
    return {entry.name: [entry.is_dir(follow_symlinks=False), entry.is_file(follow_symlinks=False), entry.is_symlink()]
            for entry in sorted(os.scandir("."), key=lambda entry: entry.name)}


@case()
def a_socket_made_here_is_reached():
    server = socket.socket(socket.AF_UNIX)
    server.bind("s")
    server.listen()
    client = socket.socket(socket.AF_UNIX)
    client.connect("s")
    client.send(b"hello")
    return [server.accept()[0].recv(9).decode(), stat.S_ISSOCK(os.stat("s").st_mode)]


@case()
def a_fifo_made_here_passes_bytes():
    os.mkfifo("p")
    file = os.open("p", os.O_RDWR)
    os.write(file, b"hello")
    return [os.read(file, 9).decode(), fails(os.open, "f/x", os.O_RDONLY)]


def fifo():
    os.mkfifo("p", 0o640)
    stamp("p")


@case(fifo)
def a_fifo_that_was_there_passes_bytes_between_processes():
    pid = os.fork()
    if pid == 0:
        file = os.open("p", os.O_WRONLY)
        os.write(file, b"hello")
        os._exit(0)
    file = os.open("p", os.O_RDONLY)
    said = os.read(file, 9).decode()
    os.waitpid(pid, 0)
    os.chmod("p", 0o600)
    return [said, oct(os.stat("p").st_mode), fails(os.open, "p", os.O_WRONLY | os.O_NONBLOCK) if not os.close(file) else 0]


@case()
def device_nodes_are_for_root():
    return fails(os.mknod, "n", stat.S_IFCHR | 0o600, os.makedev(1, 3)) if os.geteuid() else "root"


@case()
def a_forged_whiteout_is_refused_or_a_plain_node():
    return [fails(os.mknod, "f2", stat.S_IFCHR, 0), sorted(os.listdir("."))] if os.geteuid() else "root"


def watch(paths, acts, mask=0x3FF):
    """The events that `acts` cause, as (watch, mask, name)."""
    fd = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    numbers = {libc.inotify_add_watch(fd, os.fsencode(path), mask): path for path in paths}
    acts()
    events, found = b"", []
    while select.select([fd], [], [], 0.2)[0]:
        events += os.read(fd, 65536)
    while events:
        number, what, _, length = struct.unpack("iIII", events[:16])
        found.append([numbers.get(number), what, events[16:16 + length].rstrip(b"\0").decode()])
        events = events[16 + length:]
    return found


@case()
def a_watched_directory_tells_of_new_moved_and_deleted_entries():
    def acts():
        put("d/new")
        os.rename("d/new", "d/newer")
        os.unlink("d/newer")

    return [event for event in watch(["d"], acts, 0x3C0)]


@case()
def a_watched_file_tells_of_its_first_write():
    def acts():
        with open("f", "ab") as file:
            file.write(b"x")

    return sorted({event[1] for event in watch(["f"], acts, 0x2 | 0x8)})


@case()
def a_watched_file_tells_of_its_second_write():
    with open("f", "ab") as file:
        file.write(b"x")

    def acts():
        with open("f", "ab") as file:
            file.write(b"y")

    return sorted({event[1] for event in watch(["f"], acts, 0x2 | 0x8)})


@case()
def a_watched_directory_tells_of_a_write_to_an_old_file():
    def acts():
        with open("d/a", "ab") as file:
            file.write(b"x")

    return sorted({(event[1], event[2]) for event in watch(["d"], acts, 0x2 | 0x8)})


@case()
def a_deep_path_is_made_and_walked():
    top = os.getcwd()
    for _ in range(40):
        os.mkdir("n" * 100)
        os.chdir("n" * 100)
    put("end")
    os.chdir(top)
    return [fails(os.stat, "/".join(["n" * 100] * 40 + ["end"])), sum(len(dirs) for _, dirs, _ in os.walk("n" * 100))]
