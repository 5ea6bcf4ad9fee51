package main

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/tenurehq/tenure"
)

// resourceName reads a resource; without a namespace it is in default.
func resourceName(s string) (tenure.Resource, error) {
	if !strings.Contains(s, "/") {
		s = "default/" + s
	}
	return tenure.ParseResource(s)
}

func resourceNames(names []string) ([]tenure.Resource, error) {
	all := make([]tenure.Resource, len(names))
	for i, s := range names {
		r, err := resourceName(s)
		if err != nil {
			return nil, err
		}
		all[i] = r
	}
	return all, nil
}

// lease names a lease on the command line: by its id, or by a resource.
type leaseName struct {
	ID       tenure.LeaseID
	Resource tenure.Resource
}

func parseLeaseName(s string) (leaseName, error) {
	if id, err := tenure.ParseLeaseID(s); err == nil {
		return leaseName{ID: id}, nil
	}
	if _, err := tenure.ParseToken(s); err == nil {
		return leaseName{}, usage(s + " is a token: a lease is named by its id, the part before the dot, or by a resource")
	}
	r, err := resourceName(s)
	return leaseName{Resource: r}, err
}

// ttlFlag is a duration, or "none".
type ttlFlag time.Duration

// UnmarshalText reads "15s", or "none" for a lease without TTL.
func (t *ttlFlag) UnmarshalText(b []byte) error {
	d, err := durationOr(string(b), "none", tenure.NoTTL)
	*t = ttlFlag(d)
	return err
}

// graceFlag is a duration, or "none".
type graceFlag time.Duration

// UnmarshalText reads "2s", or "none" for no grace.
func (t *graceFlag) UnmarshalText(b []byte) error {
	d, err := durationOr(string(b), "none", tenure.NoGrace)
	*t = graceFlag(d)
	return err
}

// waitFlag is a duration, or "forever".
type waitFlag time.Duration

// UnmarshalText reads "1m", or "forever".
func (t *waitFlag) UnmarshalText(b []byte) error {
	d, err := durationOr(string(b), "forever", tenure.WaitForever)
	*t = waitFlag(d)
	return err
}

func durationOr(s, word string, meaning time.Duration) (time.Duration, error) {
	if s == word {
		return meaning, nil
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		return 0, fmt.Errorf("%q is not a duration: write 1500ms, 15s, 2m, or %s", s, word)
	}
	if d < 0 {
		return 0, fmt.Errorf("%q is negative", s)
	}
	return d, nil
}

// holderOr picks the holder: the flag, TENURE_HOLDER, or the default.
func (m *Main) holderOr(flag string, otherwise func() tenure.Holder) tenure.Holder {
	if flag != "" {
		return tenure.Holder(flag)
	}
	if h := m.Getenv("TENURE_HOLDER"); h != "" {
		return tenure.Holder(h)
	}
	return otherwise()
}

// hostName is the default holder of the lease commands: stable, so that one
// command can release what another acquired.
func hostName() tenure.Holder {
	host, err := os.Hostname()
	if err != nil || host == "" {
		host = "unknown-host"
	}
	return tenure.Holder(host)
}
