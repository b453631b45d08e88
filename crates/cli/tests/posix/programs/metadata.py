# Modes, times, attributes, owners.


@case()
def chmod_keeps_content_and_mtime():
    os.chmod("f", 0o600)
    info = os.stat("f")
    return [oct(info.st_mode), info.st_mtime_ns == T, get("f")]


@case()
def utimes_are_kept_to_the_nanosecond():
    os.utime("f", ns=(T + 1, T + 2))
    info = os.stat("f")
    return [info.st_atime_ns - T, info.st_mtime_ns - T]


@case()
def utimes_of_a_link_leave_its_target_alone():
    os.utime("l", ns=(T + 1, T + 2), follow_symlinks=False)
    return [os.lstat("l").st_mtime_ns - T, os.stat("f").st_mtime_ns - T]


@case()
def reading_keeps_the_mtime():
    get("f")
    return os.stat("f").st_mtime_ns == T


@case()
def opening_for_writing_without_a_write_keeps_the_mtime():
    os.close(os.open("f", os.O_RDWR))
    return os.stat("f").st_mtime_ns == T


@case()
def a_write_moves_mtime_and_ctime():
    before = os.stat("f")
    with open("f", "ab") as file:
        file.write(b"x")
    after = os.stat("f")
    return [after.st_mtime_ns > T, after.st_ctime_ns > before.st_ctime_ns, after.st_size]


@case()
def a_new_entry_moves_the_mtime_of_its_directory_alone():
    put("d/new")
    return [os.stat("d").st_mtime_ns > T, os.stat("d/sub").st_mtime_ns == T]


@case()
def access_follows_the_mode():
    os.chmod("f", 0o400)
    return [os.access("f", mode) for mode in (os.R_OK, os.X_OK, os.F_OK)] + [os.access("missing", os.F_OK)]


@case()
def a_file_without_modes_cannot_be_opened_by_its_owner():
    os.chmod("f", 0)
    return fails(get, "f") if os.geteuid() else "root"


@case()
def umask_applies_to_new_entries():
    os.umask(0o027)
    os.close(os.open("new", os.O_CREAT | os.O_WRONLY, 0o666))
    os.mkdir("newdir", 0o777)
    return [oct(os.stat("new").st_mode), oct(os.stat("newdir").st_mode)]


def setgid():
    standard()
    os.chmod("d", 0o2775)


@case(setgid)
def a_setgid_directory_passes_its_bit_on():
    os.mkdir("d/made")
    put("d/made/f")
    return [oct(os.stat("d/made").st_mode), os.stat("d/made/f").st_gid == os.stat("d").st_gid]


def sticky():
    standard()
    os.chmod("d", 0o1777)


@case(sticky)
def a_sticky_directory_keeps_its_bit_over_changes():
    os.unlink("d/a")
    put("d/new")
    return [oct(os.stat("d").st_mode), sorted(os.listdir("d"))]


def setuid():
    standard()
    os.chmod("f", 0o6755)


@case(setuid)
def a_write_strips_the_set_id_bits():
    with open("f", "ab") as file:
        file.write(b"x")
    return oct(os.stat("f").st_mode)


@case()
def chown_to_oneself_is_allowed():
    os.chown("f", os.getuid(), os.getgid())
    os.chown("d", -1, -1)
    return [os.stat("f").st_uid == os.getuid(), os.stat("f").st_mtime_ns == T]


@case()
def chown_to_another_user():
    return fails(os.chown, "f", 61002, -1)


def attributes():
    standard()
    os.setxattr("f", "user.color", b"blue")
    os.setxattr("d", "user.color", b"red")
    stamp("f", "d")


@case(attributes)
def attributes_are_read_changed_and_removed():
    seen = [os.getxattr("f", "user.color").decode(), os.getxattr("d", "user.color").decode()]
    os.setxattr("f", "user.color", b"green")
    os.setxattr("f", "user.more", b"1")
    os.setxattr("d", "user.color", b"")
    os.removexattr("f", "user.more")
    return seen + [os.listxattr("f"), os.getxattr("f", "user.color").decode(), os.getxattr("d", "user.color").decode()]


@case(attributes)
def attributes_are_there_after_the_first_write():
    with open("f", "ab") as file:
        file.write(b"x")
    return os.getxattr("f", "user.color").decode()


@case()
def attribute_flags_create_and_replace():
    return [
        fails(os.setxattr, "f", "user.x", b"1", os.XATTR_REPLACE),
        fails(os.setxattr, "f", "user.x", b"1", os.XATTR_CREATE),
        fails(os.setxattr, "f", "user.x", b"2", os.XATTR_CREATE),
        fails(os.removexattr, "f", "user.none"),
    ]


@case()
def attributes_named_like_the_markers_of_an_overlay():
    os.setxattr("d", "user.overlay.opaque", b"y")
    os.setxattr("f", "user.overlay.whiteout", b"y")
    os.setxattr("f", "user.overlay.redirect", b"/etc")
    return [sorted(os.listdir("d")), get("f"), sorted(os.listxattr("f")), os.getxattr("d", "user.overlay.opaque").decode()]


@case()
def attributes_in_the_trusted_namespace():
    return fails(os.setxattr, "f", "trusted.x", b"1")


@case()
def attributes_of_a_link_and_a_fifo_are_refused():
    os.mkfifo("p")
    return [fails(os.setxattr, "l", "user.x", b"1", follow_symlinks=False), fails(os.setxattr, "p", "user.x", b"1")]


@case()
def an_access_list_is_kept_by_the_first_write():
    # version 2; user::rw-, user:61002:r--, group::r--, mask::r--, other::---
    entries = [(1, 6, 0xFFFFFFFF), (4, 4, 0xFFFFFFFF), (0x10, 4, 0xFFFFFFFF), (0x20, 0, 0xFFFFFFFF)]
    value = struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)
    os.setxattr("f", "system.posix_acl_access", value)
    with open("f", "ab") as file:
        file.write(b"x")
    return [oct(os.stat("f").st_mode), os.getxattr("f", "system.posix_acl_access") == value
            if "system.posix_acl_access" in os.listxattr("f") else "folded into the mode"]


@case()
def file_capabilities_can_be_read_after_they_were_set():
    value = struct.pack("<IIIII", 0x02000001, 1 << 10, 0, 0, 0)
    return fails(os.setxattr, "f", "security.capability", value)


@case()
def statfs_tells_free_space():
    info = os.statvfs("f")
    return [info.f_bavail > 0, info.f_namemax]


@case()
def blocks_and_sizes_of_a_file():
    put("big", b"x" * 100_000)
    os.fsync(os.open("big", os.O_RDONLY))
    info = os.stat("big")
    return [info.st_size, info.st_blocks * 512 >= 100_000, info.st_blksize]


@case()
def device_numbers_of_a_file_and_its_directory_agree_after_a_write():
    with open("f", "ab") as file:
        file.write(b"x")
    return os.stat("f").st_dev == os.stat(".").st_dev


@case()
def inode_numbers_are_stable_over_the_first_write():
    before = [inode("f"), inode("d")]
    with open("f", "ab") as file:
        file.write(b"x")
    put("d/new")
    return [inode("f") == before[0], inode("d") == before[1]]


@case()
def inode_numbers_of_a_listing_and_of_stat_agree():
    with open("f", "ab") as file:
        file.write(b"x")
    listed = {entry.name: entry.inode() for entry in os.scandir(".")}
    return {name: listed[name] == inode(name) for name in sorted(listed)}
