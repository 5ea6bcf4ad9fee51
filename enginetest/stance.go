package enginetest

import (
	"time"

	"github.com/tenurehq/tenure"
)

// stances are the ways in which a lease can stand; active is told from
// activated, since the repeat of an activation is answered.
var stances = []string{"reserved", "active", "activated", "revoking", "released", "expired", "revoked"}

// stand makes a lease of ann stand so, and reads it.
func (p *probe) stand(stance, key string) tenure.Lease {
	p.Helper()
	var l tenure.Lease
	switch stance {
	case "reserved", "activated":
		l = p.acquire(p.reservation("ann", time.Hour, key))
	case "expired":
		l = p.acquire(p.reservation("ann", p.reserve, key))
	default:
		l = p.acquire(p.claim("ann", key))
	}
	switch stance {
	case "activated":
		p.do(tenure.Activate{Ref: l.Ref, Holder: "ann"})
	case "revoking", "revoked":
		p.revoke(l)
	case "released":
		p.release(l)
	case "expired":
		p.eventually("the reservation expires", func() bool { return p.look(l).State == tenure.StateExpired })
	}
	if stance == "revoked" {
		p.bury(l)
	}
	return p.look(l)
}

// unknown is the id of a lease that never was.
func (p *probe) unknown() tenure.LeaseID {
	return tenure.LeaseID{LSN: tenure.LSN(p.seen.Load()) + 1<<40}
}

// answers are the law's answers to a holder's command, by who asks.
type answers struct {
	granted  tenure.Code // with the token of the grant
	current  tenure.Code // with the epoch as it stands now
	stranger tenure.Code // another holder, with the token of the grant
}

// Besides the refusals: executed, or answered from memory.
const (
	done     tenure.Code = 0
	replayed tenure.Code = 255
)

func anyHolder(codes map[string]tenure.Code) map[string]answers {
	rows := map[string]answers{}
	for s, c := range codes {
		rows[s] = answers{granted: c, current: c, stranger: c}
	}
	return rows
}

type maker func(l tenure.Lease, epoch tenure.Epoch, h tenure.Holder) tenure.Command

// rows sends the command to a lease in each stance, once for each asker, and
// compares with the law.
func (p *probe) rows(make maker, law map[string]answers) {
	p.Helper()
	for _, s := range append([]string{"unknown"}, stances...) {
		want, ok := law[s]
		if !ok {
			p.Fatalf("the law says nothing about %s", s)
		}
		for asker, x := range map[string]struct {
			want   tenure.Code
			holder tenure.Holder
		}{"granted": {want.granted, "ann"}, "current": {want.current, "ann"}, "stranger": {want.stranger, "bob"}} {
			l := tenure.Lease{ID: p.unknown(), Ref: tenure.Ref{Resource: at("unknown")}}
			if s != "unknown" {
				l = p.stand(s, s+"-"+asker)
			}
			epoch := tenure.Epoch(1)
			if asker == "current" && l.Epoch > 0 {
				epoch = l.Epoch
			}
			p.row(s+", "+asker, l, make(l, epoch, x.holder), x.want)
		}
	}
}

func (p *probe) row(what string, before tenure.Lease, c tenure.Command, want tenure.Code) {
	p.Helper()
	after, err := p.Engine.Do(p.ctx, c)
	switch {
	case want == done && err != nil, want == replayed && err != nil:
		p.Errorf("%T, %s: %v", c, what, err)
	case want == done:
		p.executed(what, before, p.note(after), c)
	case want == replayed:
		if !after.Replayed || after.LSN != before.LSN || after.State != before.State {
			p.Errorf("%T, %s: replayed %v, %v at %d; was %v at %d", c, what, after.Replayed, after.State, after.LSN, before.State, before.LSN)
		}
	case tenure.CodeOf(err) != want:
		p.Errorf("%T, %s: %v, want %v", c, what, err, want)
	}
	if want != done && before.LSN != 0 {
		p.same(before)
	}
}

// executed asserts that the lease went along the arrow of its command, and that
// this is what a reader finds.
func (p *probe) executed(what string, before, after tenure.Lease, c tenure.Command) {
	p.Helper()
	state, epoch := tenure.StateActive, before.Epoch
	switch c.(type) {
	case tenure.Release:
		state, epoch = tenure.StateReleased, epoch+1
	case tenure.Revoke:
		state, epoch = tenure.StateRevoking, epoch+1
	case tenure.Reclaim:
		state = tenure.StateRevoked
	}
	if after.State != state || after.Epoch != epoch || after.LSN <= before.LSN || after.Replayed {
		p.Errorf("%T, %s: %v at epoch %d, changed at %d, replayed %v; want %v at epoch %d", c, what, after.State, after.Epoch, after.LSN, after.Replayed, state, epoch)
	}
	p.same(after)
	_, err := p.Engine.Lookup(p.ctx, tenure.Query{Resource: before.Resource})
	if owned := err == nil; owned != state.Live() {
		p.Errorf("%T, %s: the resource is owned: %v", c, what, owned)
	}
}
