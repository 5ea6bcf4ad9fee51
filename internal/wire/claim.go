package wire

import (
	"time"

	"github.com/tenurehq/tenure"
	pb "github.com/tenurehq/tenure/proto/tenure/v1"
)

// FromClaim is the request for a resolved claim. It refuses only what no
// message can carry.
func FromClaim(c *tenure.Claim) (*pb.AcquireRequest, error) {
	m := &pb.AcquireRequest{Holder: string(c.Holder), Operation: c.Op.String(), Meta: c.Meta, Resources: make([]string, len(c.Resources))}
	for i, r := range c.Resources {
		if err := sendable("resource", string(r)); err != nil {
			return nil, err
		}
		m.Resources[i] = string(r)
	}
	if err := sendable("holder", m.Holder); err != nil {
		return nil, err
	}
	var err error
	if m.NoTtl = c.TTL == tenure.NoTTL; !m.NoTtl {
		if m.TtlMs, err = asked("ttl", c.TTL); err != nil {
			return nil, err
		}
	}
	if m.NoGrace = c.Grace == tenure.NoGrace; !m.NoGrace {
		if m.GraceMs, err = asked("grace", c.Grace); err != nil {
			return nil, err
		}
	}
	if m.ReserveMs, err = asked("reserve", c.Reserve); err != nil {
		return nil, err
	}
	if c.Wait < 0 {
		return nil, invalid("wait", "it is negative: 0 never waits, WaitForever waits until the context ends")
	}
	if m.WaitForever = c.Wait == tenure.WaitForever; !m.WaitForever {
		m.WaitMs = remaining(c.Wait)
	}
	return m, nil
}

// ToClaim is the claim of a request. The holder is never left to the server,
// whose own name would be no holder's.
func ToClaim(m *pb.AcquireRequest) (tenure.Claim, error) {
	c := tenure.Claim{
		Resources: make([]tenure.Resource, len(m.GetResources())), Holder: tenure.Holder(m.GetHolder()),
		TTL: millis(m.GetTtlMs()), Grace: millis(m.GetGraceMs()), Reserve: millis(m.GetReserveMs()), Wait: millis(m.GetWaitMs()),
	}
	for i, r := range m.GetResources() {
		c.Resources[i] = tenure.Resource(r)
	}
	if len(m.GetMeta()) > 0 {
		c.Meta = m.GetMeta()
	}
	if c.Holder == "" {
		return c, c.Holder.Validate()
	}
	if err := mark(m.GetNoTtl(), &c.TTL, tenure.NoTTL, "ttl_ms", "no_ttl"); err != nil {
		return c, err
	}
	if err := mark(m.GetNoGrace(), &c.Grace, tenure.NoGrace, "grace_ms", "no_grace"); err != nil {
		return c, err
	}
	if err := mark(m.GetWaitForever(), &c.Wait, tenure.WaitForever, "wait_ms", "wait_forever"); err != nil {
		return c, err
	}
	var err error
	c.Op, err = tenure.ParseOp(m.GetOperation())
	return c, err
}

// mark replaces a duration that was left out by what its marker means.
func mark(set bool, d *time.Duration, means time.Duration, field, marker string) error {
	if !set {
		return nil
	}
	if *d != 0 {
		return invalid(field, "it contradicts "+marker+": give one of them")
	}
	*d = means
	return nil
}
