// Package keeper runs a command that must be dead by a deadline, even if the process that started it is frozen
// or killed.
//
// An agent (tenure run, tenure guard) holds a lease and moves the deadline on after every renewal. It cannot be
// trusted to kill the command in time, since whatever freezes it freezes its timers. So a keeper stands in
// between, a small process of the same binary, and both know the deadlines, as readings of CLOCK_BOOTTIME,
// which mean the same in both:
//
//	agent ──socket pair──▶ keeper ──▶ command, in its own process group
//
// # Who acts when
//
//   - At term the keeper sends SIGTERM to the command's process group and to all descendants that left it; at
//     kill SIGKILL. The agent does the same to the group, SIGTERM a moment later and only if the keeper has not
//     said that it did, and SIGKILL at the same time. Whoever is alive acts. Both wake on a timer that counts
//     suspend.
//   - The agent dies: the keeper sees the end of the socket and sends SIGTERM at once, and SIGKILL after the time
//     that lay between term and kill, but never after the kill deadline. The command dies with its parent, and
//     there is no reason to deny it the orderly end that it gets in every other case: until the kill deadline the
//     lease still is its own.
//   - The keeper dies: the command itself dies by its parent-death signal, and the agent kills the group, and
//     those outside it whose environment has the mark of this command.
//   - The keeper is frozen: the agent acts at the deadlines, then kills the keeper.
//   - The command exits and leaves descendants behind: they get SIGTERM, and SIGKILL after the time that lay
//     between term and kill.
//
// The end is reported when every descendant is dead, not when the command is: the keeper is a subreaper, so
// whoever forks away or calls setsid comes back to it. That can take as long as the kernel takes to end a process
// that hangs in a system call; nothing is reported before.
//
// # Process numbers
//
// A signal never goes to a number that may have been given to another process. The keeper leaves the dead leader
// unreaped while anyone else is left, which keeps the group's number taken. The agent, and both for processes
// outside the group, use pidfds.
//
// # Terminals
//
// The keeper has a session of its own, so ^C and ^Z at a terminal reach the agent alone, which passes on what
// it wants to pass on; and the command, having no controlling terminal, can read one but is never stopped for
// it. If stdin and stdout are the terminal in whose foreground the agent is, the keeper stays in the session, in
// a group of its own, and the command's group becomes the foreground: ^C goes to the command, /dev/tty works. ^Z
// is undone at once, as no shell could continue the command. The terminal returns to the agent's group
// afterwards.
//
// # Not covered
//
// Two faults at once, such as a frozen keeper and a killed agent; a machine that is paused as a whole (the
// command is killed when it wakes, not before); a command that became another user (sudo), which may not be
// signalled; work that the command gave to somebody else (systemd-run, docker); a descendant that left the group
// and cleared its environment, when the keeper is killed too.
//
// Linux 5.3 and /proc are needed; from Linux 6.9 on, a pidfd stands for a whole group and the agent need not walk
// /proc. On macOS, FreeBSD, OpenBSD and DragonFly less is promised: there is no parent-death signal and no subreaper, so descendants
// that leave the group, and the command of a killed keeper whose agent is frozen, live on; numbers are guarded
// only while the leader is unreaped; and the terminal is never handed over.
package keeper
