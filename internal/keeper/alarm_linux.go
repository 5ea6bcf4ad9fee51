package keeper

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// alarm sends on C when CLOCK_BOOTTIME passes the time that was set. Unlike a time.Timer, which stands still in
// suspend, it is due at once when the machine wakes behind it. It may send once too often; who hears it reads
// the clock.
type alarm struct {
	C  chan struct{}
	f  *os.File
	fd int
}

func newAlarm() (*alarm, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_BOOTTIME, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK)
	if err != nil {
		return nil, os.NewSyscallError("timerfd_create", err)
	}
	a := &alarm{C: make(chan struct{}, 1), f: os.NewFile(uintptr(fd), "alarm"), fd: fd}
	go a.listen()
	return a, nil
}

func (a *alarm) listen() {
	var count [8]byte
	for {
		if _, err := a.f.Read(count[:]); err != nil {
			return
		}
		select {
		case a.C <- struct{}{}:
		default:
		}
	}
}

// set replaces the time. Only whoever closes the alarm may call it.
func (a *alarm) set(at time.Duration) {
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(max(int64(at), 1))} // 0 would disarm it
	if err := unix.TimerfdSettime(a.fd, unix.TFD_TIMER_ABSTIME, &spec, nil); err != nil {
		panic("keeper: cannot set a timer: " + err.Error()) // nothing would enforce the deadline
	}
}

func (a *alarm) close() { a.f.Close() }
