package keeper

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// process is one line of the process table, proc_pid_stat(5). It may be outdated at once; signal makes sure
// that it hits the same process nevertheless.
type process struct {
	pid, parent, group, session int
	state                       byte
	threads                     int
	start                       uint64 // ticks since boot: tells a process from a later one with its number
}

// processes reads the whole table.
func processes() []process {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	var all []process
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if p, ok := readProcess(pid); ok {
			all = append(all, p)
		}
	}
	return all
}

func readProcess(pid int) (process, bool) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return process{}, false
	}
	// The name, in parentheses, may itself contain blanks and parentheses.
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(fields) < 20 {
		return process{}, false
	}
	number := func(field int) int { // numbered as in the manual
		n, _ := strconv.Atoi(fields[field-3])
		return n
	}
	start, _ := strconv.ParseUint(fields[22-3], 10, 64)
	return process{
		pid: pid, state: fields[0][0], parent: number(4), group: number(5), session: number(6),
		threads: number(20), start: start,
	}, true
}

// alive is false for a zombie, except one whose other threads still run.
func (p process) alive() bool {
	return p.threads > 1 || p.state != 'Z' && p.state != 'X'
}

// signal goes through a pidfd, opened before the start time is compared: if the number belongs to another
// process by now, nothing is sent.
func (p process) signal(s syscall.Signal) {
	fd, err := unix.PidfdOpen(p.pid, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	if now, ok := readProcess(p.pid); ok && now.start == p.start {
		_ = unix.PidfdSendSignal(fd, s, nil, 0)
	}
}

// marked tells whether the process was started with this environment entry.
func (p process) marked(entry string) bool {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(p.pid) + "/environ")
	if err != nil {
		return false
	}
	for e := range bytes.SplitSeq(text, []byte{0}) {
		if string(e) == entry {
			return true
		}
	}
	return false
}

// descendants returns those of all that descend from root, without root itself.
func descendants(all []process, root int) []process {
	children := make(map[int][]process)
	for _, p := range all {
		children[p.parent] = append(children[p.parent], p)
	}
	found := append([]process(nil), children[root]...)
	for i := 0; i < len(found); i++ {
		found = append(found, children[found[i].pid]...)
	}
	return found
}
