# Runs a program of which one write to a file, the NUMBERth, writes only half of what it was given, as a write may at any time
# (write(2)). The kernel does it: the length is changed as the call begins. Says in a file how many such writes there were.
import ctypes, os, signal, stat, sys

TRACEME, SYSCALL, GETREGS, SETREGS, DETACH, SETOPTIONS = 0, 24, 12, 13, 17, 0x4200
# Calls told from signals; forks and threads followed; killed with us.
OPTIONS = 1 | 2 | 4 | 8 | 0x100000
# Number of the call: the register with its length, the one with its descriptor. As x86-64 has them.
NAMES = "r15 r14 r13 r12 rbp rbx r11 r10 r9 r8 rax rcx rdx rsi rdi orig_rax rip cs eflags rsp ss fs_base gs_base ds es fs gs".split()
CALLS = {1: ("rdx", "rdi"), 18: ("rdx", "rdi"), 326: ("r8", "rdx")}


class Regs(ctypes.Structure):
    _fields_ = [(name, ctypes.c_ulonglong) for name in NAMES]


libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
libc.ptrace.restype = ctypes.c_long


def ptrace(request, pid, data=None):
    if libc.ptrace(request, pid, None, data) < 0:
        number = ctypes.get_errno()
        # Who was killed meanwhile is no longer ours to ask.
        if number != 3:
            raise OSError(number, f"ptrace {request}")


def is_file(pid, fd):
    try:
        return stat.S_ISREG(os.stat(f"/proc/{pid}/fd/{fd}").st_mode)
    except OSError:
        return False


number, out, program = int(sys.argv[1]), sys.argv[2], sys.argv[3:]
child = os.fork()
if child == 0:
    libc.ptrace(TRACEME, 0, None, None)
    os.kill(os.getpid(), signal.SIGSTOP)
    os.execv(program[0], program)
os.waitpid(child, 0)
ptrace(SETOPTIONS, child, OPTIONS)
ptrace(SYSCALL, child)
begun, new, count, code = set(), set(), 0, None
while code is None:
    pid, status = os.waitpid(-1, 0x40000000)
    if not os.WIFSTOPPED(status):
        if pid == child:
            code = status
        continue
    sent = os.WSTOPSIG(status)
    pass_on = 0
    if sent == signal.SIGTRAP | 0x80:
        if pid in begun:
            begun.discard(pid)
        else:
            begun.add(pid)
            regs = Regs()
            ptrace(GETREGS, pid, ctypes.addressof(regs))
            if regs.orig_rax in CALLS:
                length, fd = CALLS[regs.orig_rax]
                if getattr(regs, length) > 1 and is_file(pid, getattr(regs, fd)):
                    count += 1
                    if count == number:
                        setattr(regs, length, getattr(regs, length) // 2)
                        ptrace(SETREGS, pid, ctypes.addressof(regs))
    elif status >> 16 == 0 and sent not in (signal.SIGTRAP, signal.SIGSTOP):
        pass_on = sent
    ptrace(SYSCALL, pid, pass_on)
with open(out, "w") as file:
    file.write(str(count))
if os.WIFSIGNALED(code):
    os.kill(os.getpid(), os.WTERMSIG(code))
sys.exit(os.WEXITSTATUS(code))
