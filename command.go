package tenure

import "fmt"

// Command changes a lease that exists. It is one of [Activate], [Release],
// [Revoke] and [Reclaim]; there are no others.
type Command interface {
	// Validate reports, as an [*Error] with code [ErrInvalid], a field that no
	// engine could accept.
	Validate() error

	command()
}

// Activate confirms a reservation: reserved becomes active under the same
// token. Repeating it is safe.
type Activate struct {
	Ref    Ref
	Holder Holder
}

// Release ends a lease from its holder's side; the resources are reusable at
// once. It is sent after the work has stopped, never before. Repeating it is
// safe.
type Release struct {
	Ref    Ref
	Holder Holder
	Result Result // [OutcomeOK] or [OutcomeFailed]; the zero value means OK
}

// Revoke withdraws authority: the epoch is raised, the resources stay unusable
// until the lease is reclaimed. An operator's command, it carries no token.
type Revoke struct {
	Lease    LeaseID
	Resource Resource // any one of the lease; some engines find a record only by it
	Reason   string   // at most [MaxReasonBytes] of UTF-8
}

// Reclaim frees the resources of a revoking lease. Engines do it themselves
// when the holder's belief must have ended and the grace is over; doing it
// earlier takes the operator's assertion that the holder is dead, which is
// recorded.
type Reclaim struct {
	Lease        LeaseID
	Resource     Resource
	HolderIsDead bool
}

func (Activate) command() {}
func (Release) command()  {}
func (Revoke) command()   {}
func (Reclaim) command()  {}

// Validate checks the token, the resource and the holder.
func (c Activate) Validate() error { return validateHeld(c.Ref, c.Holder) }

// Validate checks the token, the resource, the holder and the result.
func (c Release) Validate() error {
	if err := validateHeld(c.Ref, c.Holder); err != nil {
		return err
	}
	if c.Result.Outcome > OutcomeFailed {
		return invalid("result", c.Ref.Resource, fmt.Sprintf("a release ends %s or %s, not %q", OutcomeOK, OutcomeFailed, c.Result.Outcome))
	}
	return validateReason("detail", c.Result.Detail)
}

// Validate checks the lease, the resource and the reason.
func (c Revoke) Validate() error {
	if err := validateNamed(c.Lease, c.Resource); err != nil {
		return err
	}
	return validateReason("reason", c.Reason)
}

// Validate checks the lease and the resource.
func (c Reclaim) Validate() error { return validateNamed(c.Lease, c.Resource) }

func validateHeld(ref Ref, h Holder) error {
	if ref.Token.IsZero() {
		return invalid("token", ref.Resource, "a holder's command carries the token of its grant")
	}
	if err := validateNamed(ref.Token.Lease, ref.Resource); err != nil {
		return err
	}
	return h.Validate()
}

// validateNamed accepts an empty resource: engines that find leases by id do
// not need it, the others say so.
func validateNamed(id LeaseID, r Resource) error {
	if id.IsZero() {
		return invalid("lease", r, "no lease is named: write its id, for example 0-42")
	}
	if r == "" {
		return nil
	}
	return r.Validate()
}

func validateReason(field, s string) error {
	if len(s) > MaxReasonBytes {
		return invalid(field, "", fmt.Sprintf("%d bytes, at most %d are allowed", len(s), MaxReasonBytes))
	}
	if why := badUTF8(s); why != "" {
		return invalid(field, "", why)
	}
	return nil
}
