package memlog_test

import (
	"testing"

	"github.com/tenurehq/tenure/journal/logtest"
	"github.com/tenurehq/tenure/journal/memlog"
)

func TestLog(t *testing.T) {
	logtest.Run(t, func(t *testing.T) logtest.Subject {
		last := memlog.New()
		s := logtest.Subject{Log: last}
		s.Reopen = func() logtest.Log {
			last = last.Crash(false)
			return last
		}
		return s
	})
}
