# Renames of files and directories: what a plain directory does is what a lane must do.


@case()
def a_file_is_renamed_with_content_and_time():
    os.rename("f", "d/f")
    return tree()


@case()
def a_file_is_renamed_over_another_and_over_an_open_one():
    early = os.open("g", os.O_RDONLY)
    os.rename("f", "g")
    return [get("g"), os.pread(early, 9, 0).decode(), os.path.exists("f")]


@case()
def a_replaced_open_file_counts_no_links():
    early = os.open("g", os.O_RDONLY)
    os.rename("f", "g")
    return os.fstat(early).st_nlink


@case()
def noreplace_onto_an_entry_is_refused():
    return [fails(renameat2, "f", "g", NOREPLACE), fails(renameat2, "d", "e", NOREPLACE), fails(renameat2, "d", "f", NOREPLACE),
            fails(renameat2, "f", "new", NOREPLACE), fails(renameat2, "d", "newdir", NOREPLACE), tree()]


@case()
def two_files_are_exchanged():
    renameat2("f", "g", EXCHANGE)
    return [get("f"), get("g"), fails(renameat2, "f", "missing", EXCHANGE)]


def onto_its_other_name(other):
    seen = [fails(renameat2, "f", other), fails(renameat2, other, "f"), fails(renameat2, "f", other, EXCHANGE),
            fails(renameat2, "f", other, NOREPLACE), fails(renameat2, "f", other + "/"), tree()]
    put("f", b"written")
    return seen + [get(other)]


@case()
def a_new_name_of_a_file_is_not_renamed_to_another_of_its_names():
    os.link("f", "d/new")
    return onto_its_other_name("d/new")


@case(linked)
def an_old_name_of_a_file_is_not_renamed_to_another_of_its_names():
    return onto_its_other_name("h")[:-1]


@case()
def two_directories_are_exchanged():
    put("e/x")
    renameat2("d", "e", EXCHANGE)
    return tree(times=False)


def two_dirs():
    standard()
    os.makedirs("d2/deep")
    put("d2/deep/z")
    put("d2/a", b"second a")
    os.chmod("d2", 0o700)
    stamp("d2/deep/z", "d2/a", "d2/deep", "d2")


@case(two_dirs)
def two_old_directories_are_exchanged():
    renameat2("d", "d2", EXCHANGE)
    return tree()


@case(two_dirs)
def two_old_directories_in_different_places_are_exchanged():
    renameat2("d/sub", "d2/deep", EXCHANGE)
    return tree()


@case()
def an_old_directory_and_a_file_are_exchanged():
    renameat2("d", "f", EXCHANGE)
    return tree()


@case()
def a_file_and_an_old_directory_are_exchanged():
    renameat2("f", "d", EXCHANGE)
    return tree()


@case()
def an_old_directory_and_a_new_one_are_exchanged():
    os.makedirs("new/inner")
    put("new/inner/x")
    renameat2("d", "new", EXCHANGE)
    renameat2("e", "new", EXCHANGE)
    return tree(times=False)


@case()
def an_old_directory_and_a_link_are_exchanged():
    renameat2("l", "d", EXCHANGE)
    return tree()


@case()
def exchange_with_a_child_is_refused():
    return [fails(renameat2, "d", "d/sub", EXCHANGE), fails(renameat2, "d/sub", "d", EXCHANGE), tree()]


@case()
def whiteout_flag():
    return fails(renameat2, "f", "moved", WHITEOUT) if os.geteuid() else "root"


@case()
def unknown_and_contradicting_flags_are_refused():
    return [fails(renameat2, "d", "x", 64), fails(renameat2, "d", "e", NOREPLACE | EXCHANGE)]


@case()
def a_directory_is_renamed_whole():
    os.rename("d", "moved")
    return tree()


@case()
def a_directory_is_renamed_and_back():
    os.rename("d", "moved")
    os.rename("moved", "d")
    return tree()


@case()
def a_directory_is_renamed_twice_and_written():
    os.rename("d", "m1")
    with open("m1/a", "ab") as file:
        file.write(b"x")
    os.rename("m1/sub", "sub")
    os.rename("m1", "e/m2")
    return tree(times=False)


@case()
def a_directory_is_renamed_onto_an_empty_one():
    os.rename("d", "e")
    return tree()


@case()
def a_directory_is_renamed_onto_an_emptied_one():
    os.mkdir("full")
    put("full/x")
    os.unlink("full/x")
    os.rename("d", "full")
    return tree()


def emptied():
    standard()
    os.mkdir("old")
    put("old/x")


@case(emptied)
def a_directory_is_renamed_onto_an_old_one_that_was_emptied():
    os.unlink("old/x")
    os.rename("d", "old")
    return tree()


@case(two_dirs)
def a_directory_onto_a_full_one_is_refused():
    return [fails(os.rename, "d", "d2"), fails(os.rename, "d/sub", "d"), tree()]


@case()
def a_directory_onto_a_file_and_a_file_onto_a_directory_are_refused():
    return [fails(os.rename, "d", "f"), fails(os.rename, "f", "d"), fails(os.rename, "f", "e"), fails(os.rename, "d", "l"), tree()]


@case()
def a_directory_into_itself_is_refused():
    return [fails(os.rename, "d", "d/sub/d"), fails(os.rename, "d", "d/x"), fails(os.rename, "d", "d"), tree()]


@case()
def a_missing_directory_and_a_missing_parent_are_refused():
    return [fails(os.rename, "missing", "x"), fails(os.rename, "d", "missing/x"), fails(os.rename, "d", "f/x"),
            fails(os.rename, "d", ""), fails(os.rename, "", "x"), fails(os.rename, "d", "n" * 256), tree()]


@case()
def dots_are_refused():
    return [fails(os.rename, "d/.", "x"), fails(os.rename, ".", "x"), fails(os.rename, "d/..", "x"), fails(os.rename, "d", "e/."),
            fails(os.rename, "d", ".."), tree()]


@case()
def relative_paths_start_from_the_working_directory():
    os.chdir("d")
    os.rename("sub", "../e/sub")
    os.chdir("../e")
    os.rename("sub", "again")
    os.chdir("..")
    os.rename("./e/../d", ".//moved")
    return tree(times=False)


@case()
def descriptors_of_directories_are_where_paths_start():
    one, two = os.open("d", os.O_RDONLY), os.open("e", os.O_RDONLY | os.O_PATH)
    os.rename("sub", "moved", src_dir_fd=one, dst_dir_fd=two)
    seen = [fails(renameat2, "a", "x", 0, os.open("f", os.O_RDONLY), two), fails(renameat2, "moved", "x", 0, 999, two)]
    os.rename("moved", "top", src_dir_fd=two)
    return seen + [tree(times=False)]


@case()
def a_missing_descriptor_does_not_matter_to_an_absolute_path():
    renameat2(os.path.abspath("d"), os.path.abspath("moved"), 0, 999, 999)
    return tree()


def with_links():
    standard()
    os.symlink("d", "to_d")
    os.symlink("e", "to_e")


@case(with_links)
def links_on_the_way_are_followed_and_a_last_one_is_not():
    os.rename("to_d/sub", "to_e/sub")
    os.rename("to_d", "link_moved")
    return tree(times=False)


@case(with_links)
def slashes_behind_a_directory_are_fine_and_behind_others_refused():
    os.rename("d/", "moved///")
    return [fails(os.rename, "to_e/", "x"), fails(os.rename, "f/", "x"), fails(os.rename, "f", "x/"), fails(os.rename, "e", "f/"),
            fails(renameat2, "e", "f/", EXCHANGE), fails(renameat2, "moved/", "f", EXCHANGE), tree()]


def strange():
    standard()
    os.makedirs(b"q/new\nline/bad\xff")
    put(b"q/new\nline/bad\xff/\xfe \t", b"strange")
    os.makedirs(b"q/" + b"x" * 255)
    put(b"q/" + b"x" * 255 + b"/" + b"y" * 255)
    os.mkdir(b"w" * 255)


@case(strange)
def names_of_any_bytes_are_renamed_with_their_directory():
    os.rename("q", b"to\nthe \xff")
    os.rename(b"w" * 255, b"z" * 255)
    return tree(times=False)


@case(strange)
def a_directory_is_moved_to_another_parent_from_a_path_of_more_than_256_bytes():
    os.rename(b"q/" + b"x" * 255, b"z")
    return tree("z", times=False)


def nested():
    path = "n0"
    for level in range(1, 11):
        os.mkdir(path)
        put(path + "/f", path.encode())
        os.setxattr(path, "user.level", str(level).encode())
        path += f"/n{level}"
    for level in range(10, 0, -1):
        path = "/".join(f"n{number}" for number in range(level))
        os.chmod(path, [0o755, 0o700, 0o711, 0o2775, 0o1777][level % 5])
        stamp(path + "/f", path)


@case(nested)
def ten_levels_keep_mode_time_and_attributes_of_every_directory():
    os.rename("n0", "moved")
    return tree()


@case(nested)
def a_directory_in_the_middle_is_moved_to_the_top():
    os.rename("n0/n1/n2/n3", "moved")
    return [tree("moved"), oct(os.lstat("n0/n1/n2").st_mode)]


def mixed_setup():
    standard()
    os.makedirs("d/old/inner")
    put("d/old/inner/x")
    put("d/gone")
    os.mkdir("d/gonedir")
    put("d/gonedir/y")


@case(mixed_setup)
def old_and_new_and_deleted_entries_are_renamed_together():
    put("d/new")
    os.mkdir("d/newdir")
    put("d/newdir/z")
    put("d/old/inner/x2")
    os.unlink("d/gone")
    shutil.rmtree("d/gonedir")
    with open("d/a", "ab") as file:
        file.write(b"+")
    os.rename("d", "moved")
    return [tree(times=False), os.path.exists("d"), fails(os.mkdir, "d"), os.listdir("d")]


@case(mixed_setup)
def a_replaced_directory_is_renamed():
    shutil.rmtree("d/old")
    os.mkdir("d/old")
    put("d/old/only")
    os.rename("d/old", "old")
    os.rename("d", "moved")
    return tree(times=False)


def special():
    os.mkdir("d")
    put("d/one")
    os.link("d/one", "d/two")
    os.symlink("../f", "d/out")
    os.symlink("nowhere", "d/broken")
    os.mkfifo("d/p", 0o600)
    os.makedirs("d/in")
    os.symlink("../..", "d/in/up")
    stamp("d/one", "d/p", "d/out", "d/in", "d")


@case(special)
def links_and_fifos_are_renamed_with_their_directory():
    os.rename("d", "moved")
    return [tree(), stat.S_ISFIFO(os.stat("moved/p").st_mode), os.readlink("moved/in/up")]


@case(special)
def hard_links_inside_a_renamed_directory_stay_one_file():
    os.rename("d", "moved")
    with open("moved/one", "ab") as file:
        file.write(b"x")
    return get("moved/two")


def closed():
    standard()
    os.makedirs("ro/in")
    put("ro/x")
    put("ro/in/y", b"y", 0o400)
    os.chmod("ro/in", 0o500)
    os.chmod("ro", 0o555)
    stamp("ro/in", "ro")


@case(closed)
def a_read_only_directory_is_renamed_in_place():
    os.rename("ro", "moved")
    return tree("moved")


def shut():
    standard()
    os.makedirs("box/in")
    put("box/in/y", b"y", 0o400)
    os.chmod("box/in", 0o000)


@case(shut)
def a_directory_without_modes_is_renamed_with_what_is_in_it():
    os.rename("box", "moved")
    mode = oct(os.stat("moved/in").st_mode)
    os.chmod("moved/in", 0o700)
    return [mode, tree("moved", times=False)]


@case(closed)
def a_read_only_directory_is_not_moved_elsewhere():
    answer = fails(os.rename, "ro", "e/ro") if os.geteuid() else "root"
    os.chmod("ro", 0o555)
    return [answer, oct(os.lstat("ro").st_mode)] if os.geteuid() else "root"


def locked_parent():
    standard()
    os.mkdir("p")
    os.mkdir("p/q")
    os.chmod("p", 0o555)


@case(locked_parent)
def a_read_only_parent_refuses():
    return [fails(os.rename, "p/q", "q"), fails(os.rename, "e", "p/e")] if os.geteuid() else "root"


@case()
def open_files_go_on_working_after_their_directory_was_renamed():
    reader, writer = os.open("d/a", os.O_RDONLY), os.open("d/b", os.O_RDWR)
    log = os.open("d/log", os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o644)
    os.write(log, b"before;")
    os.rename("d", "moved")
    os.write(writer, b"written after")
    os.write(log, b"after;")
    return [os.pread(reader, 9, 0).decode(), get("moved/b"), get("moved/log"), os.pread(writer, 99, 0).decode()]


@case()
def an_open_descriptor_of_a_renamed_directory_follows_it():
    early = os.open("d", os.O_RDONLY)
    os.rename("d", "moved")
    return [fails(os.stat, "a", dir_fd=early), os.path.basename(os.readlink(f"/proc/self/fd/{early}"))]


@case()
def a_working_directory_follows_its_rename():
    os.chdir("d")
    os.rename("../d", "../moved")
    try:
        here = os.path.basename(os.getcwd())
    except OSError as error:
        here = errno.errorcode[error.errno]
    return [here, fails(os.stat, "a")]


@case()
def a_new_directory_that_is_a_working_directory_follows_its_rename():
    os.mkdir("new")
    os.chdir("new")
    put("x")
    os.rename("../new", "../moved")
    return [os.path.basename(os.getcwd()), get("x")]


@case()
def the_inode_number_of_a_renamed_directory_stays():
    before = inode("d")
    os.rename("d", "moved")
    return inode("moved") == before


@case()
def inode_numbers_of_files_in_a_renamed_directory_stay():
    before = [inode("d/a"), inode("d/sub/c")]
    os.rename("d", "moved")
    return [inode("moved/a") == before[0], inode("moved/sub/c") == before[1]]


@case()
def a_rename_moves_the_times_of_both_parents_alone():
    os.mkdir("into")
    os.utime("into", ns=(T, T))
    os.rename("d/sub", "into/sub")
    return [os.stat("d").st_mtime_ns > T, os.stat("into").st_mtime_ns > T, os.stat("into/sub").st_mtime_ns == T]


@case()
def a_watched_parent_tells_of_a_renamed_new_directory():
    os.mkdir("d/new")
    return watch(["d"], lambda: os.rename("d/new", "d/newer"), 0xC0)


@case()
def a_watched_parent_tells_of_a_renamed_old_directory():
    return watch(["d"], lambda: os.rename("d/sub", "d/moved"), 0xC0)


@case(two_dirs)
def of_two_racing_renames_exactly_one_wins():
    gate, go = os.pipe()
    come, tell = os.pipe()
    for name in ("one", "two"):
        if os.fork() == 0:
            os.read(gate, 1)
            os.write(tell, (str(fails(os.rename, "d", name)) + ";").encode())
            os._exit(0)
    os.write(go, b"xx")
    os.wait()
    os.wait()
    said = os.read(come, 99).decode()
    won = [name for name in ("one", "two") if os.path.exists(name)]
    return [sorted(said.split(";")), len(won), tree(won[0]) if won else None, os.path.exists("d")]


@case(many)
def a_directory_with_many_entries_is_renamed():
    os.mkdir("../a_directory_with_many_entries_is_renamed/x")
    top = os.path.basename(os.getcwd())
    os.chdir("..")
    os.rename(top, top + ".moved")
    names = os.listdir(top + ".moved")
    os.rename(top + ".moved", top)
    return len(names)


@case()
def a_shell_moves_and_copies_back():
    run = lambda *command: subprocess.run(command, check=True)
    run("mv", "d", "moved")
    run("cp", "-a", "moved", "d")
    run("mv", "-T", "moved", "e")
    return tree()
