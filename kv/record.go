package kv

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/tenurehq/tenure"
)

// record is what stands under the key of one resource, as JSON: the current
// tenure, or the blank that the last one left behind. Durations are
// milliseconds, times RFC 3339 for people.
type record struct {
	Version   int       `json:"tenure"`
	Holder    string    `json:"holder"`  // empty: a blank
	Session   string    `json:"session"` // one process and one term: a namesake has another
	Count     uint64    `json:"count"`   // the LSN of the grant
	Epoch     uint32    `json:"epoch"`
	State     string    `json:"state"`
	TTL       int64     `json:"ttl_ms"` // -1: none
	Grace     int64     `json:"grace_ms"`
	Reserve   int64     `json:"reserve_ms,omitempty"`
	GrantedAt time.Time `json:"granted_at"`
	Confirm   uint64    `json:"confirm"` // renewals since the grant: each is another revision
	Meta      []byte    `json:"meta,omitempty"`

	LSN     uint64 `json:"lsn"`   // of the last change, renewals apart
	Prior   string `json:"prior"` // how the tenure before this one ended
	Op      string `json:"op"`    // the operation of the claim
	Last    string `json:"last,omitempty"`
	Outcome string `json:"outcome,omitempty"`
	Detail  string `json:"detail,omitempty"`

	Former       string    `json:"former,omitempty"` // a blank's last holder
	Ending       string    `json:"ending,omitempty"` // a blank's: what the next tenure will have as prior
	EndedAt      time.Time `json:"ended_at,omitzero"`
	HolderIsDead bool      `json:"holder_is_dead,omitempty"` // the assertion it was freed by

	Past  []past `json:"past,omitempty"`  // operations of earlier tenures, oldest first
	Floor uint64 `json:"floor,omitempty"` // the last count whose operation is forgotten

	Write string `json:"write"` // fresh in each write: whoever finds it knows that it was theirs, and not one like it
	Check string `json:"check"` // over all of the above: a record edited by hand is not trusted
}

// past remembers the operation of a tenure that was overwritten, so that its
// repeat can be told what became of it (T10).
type past struct {
	Op    string `json:"op"`
	Count uint64 `json:"count"`
	Print string `json:"print"` // of the claim
	State string `json:"state"`
	Epoch uint32 `json:"epoch"`
}

const (
	recordVersion = 1
	keptPast      = 8 // operations kept in Past

	lastActivate = "activate" // values of Last; the epoch they carried is 1, no other can have had authority
	lastRelease  = "release"
)

func (r *record) state() tenure.State {
	s, _ := tenure.ParseState(r.State)
	return s
}

func (r *record) ending() tenure.Ending {
	e, _ := tenure.ParseEnding(r.Ending)
	return e
}

func (r *record) prior() tenure.Ending {
	e, _ := tenure.ParseEnding(r.Prior)
	return e
}

func (r *record) id() tenure.LeaseID { return tenure.LeaseID{LSN: tenure.LSN(r.Count)} }

// holder is who owns it, or who was the last to.
func (r *record) holder() tenure.Holder {
	if r.Holder == "" {
		return tenure.Holder(r.Former)
	}
	return tenure.Holder(r.Holder)
}

// silence is how long the record must have been seen unchanged before its
// holder's belief and the grace are over; ok is false if no silence ends it.
func (r *record) silence() (d time.Duration, ok bool) {
	if r.TTL < 0 {
		return 0, false
	}
	return ms(r.TTL) + ms(r.Grace), true
}

func (r *record) window() time.Duration { return ms(r.Reserve) }

// next is a copy to be changed; the record itself stays what was read.
func (r *record) next() *record {
	n := *r
	return &n
}

// blank ends the tenure and leaves the resource behind for the next one.
func (r *record) blank(s tenure.State, left tenure.Ending, at time.Time) {
	r.Former, r.Holder = r.Holder, ""
	r.State, r.Ending = s.String(), left.String()
	r.EndedAt = stamp(at)
}

// public is the record in the vocabulary's words.
func (r *record) public(res tenure.Resource) tenure.Lease {
	outcome, _ := tenure.ParseOutcome(r.Outcome)
	l := tenure.Lease{
		Ref:       tenure.Ref{Resource: res},
		ID:        r.id(),
		Epoch:     tenure.Epoch(r.Epoch),
		Resources: []tenure.Resource{res},
		Holder:    r.holder(),
		State:     r.state(),
		TTL:       ms(r.TTL),
		Grace:     ms(r.Grace),
		Prior:     r.prior(),
		Result:    tenure.Result{Outcome: outcome, Detail: r.Detail},
		Meta:      r.Meta,
		LSN:       tenure.LSN(r.LSN),
		AsOf:      tenure.LSN(r.LSN),
		GrantedAt: r.GrantedAt,
		EndedAt:   r.EndedAt,
	}
	if r.TTL < 0 {
		l.TTL = tenure.NoTTL
	}
	if l.State.Held() {
		l.Token = tenure.Token{Lease: l.ID, Epoch: l.Epoch}
	}
	return l
}

// grantedFor reports whether the record was created for the claim.
func (r *record) grantedFor(c *tenure.Claim) bool {
	want := newRecord(c)
	return r.holder() == tenure.Holder(want.Holder) && r.TTL == want.TTL && r.Grace == want.Grace &&
		r.Reserve == want.Reserve && bytes.Equal(r.Meta, want.Meta)
}

// print is the claim's fingerprint, for operations that are past.
func (r *record) print() string {
	h := sha256.New()
	fmt.Fprintf(h, "%q %d %d %d %q", r.holder(), r.TTL, r.Grace, r.Reserve, r.Meta)
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// newRecord is the claim's part of a record.
func newRecord(c *tenure.Claim) *record {
	r := &record{
		Version: recordVersion,
		Holder:  string(c.Holder),
		Epoch:   1,
		State:   tenure.StateActive.String(),
		TTL:     c.TTL.Milliseconds(),
		Grace:   max(c.Grace, 0).Milliseconds(),
		Reserve: c.Reserve.Milliseconds(),
		Meta:    c.Meta,
		Op:      hex.EncodeToString(c.Op.ID[:]),
	}
	if c.TTL == tenure.NoTTL {
		r.TTL = -1
	}
	if c.Reserve > 0 {
		r.State = tenure.StateReserved.String()
	}
	return r
}

// succeed makes r the tenure after prev: what prev's operations became is
// kept, as far as there is room.
func (r *record) succeed(prev *record) {
	if prev == nil {
		return
	}
	ended := past{Op: prev.Op, Count: prev.Count, Print: prev.print(), State: prev.State, Epoch: prev.Epoch}
	switch prev.state() { // a live one ends by being overwritten
	case tenure.StateActive:
		ended.State, ended.Epoch = tenure.StateRevoked.String(), prev.Epoch+1
	case tenure.StateRevoking:
		ended.State = tenure.StateRevoked.String()
	case tenure.StateReserved:
		ended.State, ended.Epoch = tenure.StateExpired.String(), prev.Epoch+1
	}
	r.Floor = prev.Floor
	r.Past = append(append([]past(nil), prev.Past...), ended)
	if drop := len(r.Past) - keptPast; drop > 0 {
		r.Floor = r.Past[drop-1].Count
		r.Past = r.Past[drop:]
	}
}

func (r *record) encode() ([]byte, error) {
	r.Check = ""
	body, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("kv: encode a record: %w", err)
	}
	r.Check = sum(body)
	return json.Marshal(r)
}

// decode reads a record and trusts nothing in it.
func decode(value []byte) (*record, error) {
	var version struct {
		Version *int `json:"tenure"`
	}
	if err := json.Unmarshal(value, &version); err != nil {
		return nil, fmt.Errorf("it is not JSON of Tenure's (%d bytes)", len(value))
	}
	if version.Version == nil {
		return nil, errors.New("it is not a record of Tenure's")
	}
	if *version.Version != recordVersion {
		return nil, fmt.Errorf("it is a record of version %d, this program knows version %d", *version.Version, recordVersion)
	}
	r := &record{}
	d := json.NewDecoder(bytes.NewReader(value))
	d.DisallowUnknownFields()
	if err := d.Decode(r); err != nil {
		return nil, fmt.Errorf("it does not read as a record: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something follows the record")
	}
	check := r.Check
	if _, err := r.encode(); err != nil {
		return nil, err
	}
	if r.Check != check {
		return nil, errors.New("its check does not fit: it was edited by hand")
	}
	return r, r.validate()
}

func (r *record) validate() error {
	s, known := tenure.ParseState(r.State)
	_, knownPrior := tenure.ParseEnding(r.Prior)
	_, knownEnding := tenure.ParseEnding(r.Ending)
	_, knownOutcome := tenure.ParseOutcome(r.Outcome)
	most := maxDuration.Milliseconds()
	switch {
	case !known || !knownPrior || !knownOutcome:
		return fmt.Errorf("state %q, prior %q or outcome %q is unknown", r.State, r.Prior, r.Outcome)
	case s.Live() != (r.Holder != ""):
		return fmt.Errorf("it is %s and its holder is %q", s, r.Holder)
	case !s.Live() && !knownEnding:
		return fmt.Errorf("it is a blank with ending %q", r.Ending)
	case r.holder().Validate() != nil:
		return fmt.Errorf("its holder %q is malformed", r.holder())
	case s.Held() != (r.Epoch == 1) || r.Epoch == 0:
		return fmt.Errorf("it is %s at epoch %d", s, r.Epoch)
	case r.Count == 0 || r.LSN < r.Count || r.LSN > uint64(tenure.MaxLSN) || r.Floor > r.Count:
		return fmt.Errorf("its count %d, LSN %d or floor %d is out of range", r.Count, r.LSN, r.Floor)
	case r.TTL != -1 && (r.TTL < 1 || r.TTL > most) || r.Grace < 0 || r.Grace > most || r.Reserve < 0 || r.Reserve > most:
		return fmt.Errorf("ttl_ms %d, grace_ms %d or reserve_ms %d is out of range", r.TTL, r.Grace, r.Reserve)
	case s == tenure.StateReserved && r.Reserve == 0:
		return errors.New("it is reserved without a window")
	case len(r.Meta) > tenure.MaxMetaBytes || len(r.Past) > keptPast:
		return errors.New("its meta or past is too long")
	}
	return nil
}

const maxDuration = 30 * 24 * time.Hour // the widest limit of any engine

func sum(b []byte) string {
	h := sha256.Sum256(b)
	return hex.EncodeToString(h[:8])
}

func ms(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

func stamp(t time.Time) time.Time { return t.UTC().Truncate(time.Millisecond) }

func (p *past) id() tenure.LeaseID { return tenure.LeaseID{LSN: tenure.LSN(p.Count)} }

// public is what is left to tell the claim that created it.
func (p *past) public(v *view, c *tenure.Claim) tenure.Lease {
	state, _ := tenure.ParseState(p.State)
	return tenure.Lease{
		Ref:       tenure.Ref{Resource: v.resource},
		ID:        p.id(),
		Epoch:     tenure.Epoch(p.Epoch),
		Resources: []tenure.Resource{v.resource},
		Holder:    c.Holder,
		State:     state,
		TTL:       c.TTL,
		Grace:     max(c.Grace, 0),
		Meta:      c.Meta,
		Replayed:  true,
		LSN:       tenure.LSN(p.Count),
		AsOf:      tenure.LSN(v.rec.LSN),
	}
}
