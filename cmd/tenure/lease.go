package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tenurehq/tenure"
)

// leaseCmd is each call of the API.
type leaseCmd struct {
	Acquire  acquireCmd  `cmd:"" help:"Acquire a lease; refused at once if it is held, unless --wait says otherwise."`
	Activate activateCmd `cmd:"" help:"Confirm a reservation."`
	Renew    renewCmd    `cmd:"" help:"Say that the holder is alive."`
	Release  releaseCmd  `cmd:"" help:"End a lease from its holder's side."`
	Revoke   revokeCmd   `cmd:"" help:"Withdraw a holder's authority."`
	Reclaim  reclaimCmd  `cmd:"" help:"Free a revoked lease's resources before its time is over."`
	Show     showCmd     `cmd:"" help:"Show one lease."`
	Ls       lsCmd       `cmd:"" help:"List leases, or watch what becomes of them."`
}

type acquireCmd struct {
	Resource []string      `arg:"" help:"What to own: namespace/key; several are granted whole or not at all."`
	TTL      ttlFlag       `name:"ttl" default:"15s" help:"How long the holder may stay silent, or none."`
	Grace    graceFlag     `default:"0s" help:"How long the resource stays unusable after a loss: 0 = a tenth of the TTL, or none."`
	Wait     waitFlag      `default:"0s" help:"How long to wait for a live holder, or forever."`
	Reserve  time.Duration `default:"0s" help:"Reserve only, to be activated within this."`
	Holder   string        `help:"${holder_help} Default: the host's name."`
	Meta     string        `help:"Text to keep with the lease, at most 4 KiB."`
	Op       string        `name:"operation" help:"Repeat an operation, as its error named it."`
	Quiet    bool          `short:"q" help:"Print the token and nothing else."`
}

// Run acquires.
func (c *acquireCmd) Run(ctx context.Context, m *Main, g *Globals) error {
	resources, err := resourceNames(c.Resource)
	if err != nil {
		return err
	}
	op, err := tenure.ParseOp(c.Op)
	if err != nil {
		return err
	}
	if c.Quiet && g.JSON {
		return usage("--quiet prints the token, --json everything: leave one of them out")
	}
	return m.withEngine(ctx, g, func(eng tenure.Engine) error {
		ctx, cancel := bounded(ctx, eng, time.Duration(c.Wait))
		defer cancel()
		l, err := eng.Acquire(ctx, tenure.Claim{
			Resources: resources, Holder: m.holderOr(c.Holder, hostName), TTL: time.Duration(c.TTL), Grace: time.Duration(c.Grace),
			Wait: time.Duration(c.Wait), Reserve: c.Reserve, Meta: []byte(c.Meta), Op: op,
		})
		if err != nil {
			return withOperation(err)
		}
		if c.Quiet && !l.Token.IsZero() {
			fmt.Fprintln(m.Stdout, l.Token)
			return nil
		}
		m.printLease(g, l)
		if l.Token.IsZero() {
			return &tenure.Error{Code: tenure.ErrEnded, Resource: l.Resource, Lease: l.ID, Why: "the operation's lease is over: acquire with a fresh operation"}
		}
		return nil
	})
}

// withOperation says how to settle an outcome that is not known.
func withOperation(err error) error {
	var e *tenure.Error
	if !errors.As(err, &e) || e.Code != tenure.ErrUnknownOutcome || e.Op.IsZero() {
		return err
	}
	told := *e
	told.Why = fmt.Sprintf("repeat the command with --operation %s to settle it (%s)", e.Op, e.Why)
	return &told
}

// held is what a holder's command names.
type held struct {
	Token    string `arg:"" help:"The token of the grant."`
	Resource string `arg:"" optional:"" help:"A resource of the lease; only NATS buckets need it."`
}

func (h held) ref() (tenure.Ref, error) {
	token, err := tenure.ParseToken(h.Token)
	if err != nil {
		return tenure.Ref{}, err
	}
	ref := tenure.Ref{Token: token}
	if h.Resource != "" {
		ref.Resource, err = resourceName(h.Resource)
	}
	return ref, err
}

type activateCmd struct {
	held
	Holder string `help:"${holder_help} Default: the host's name."`
}

// Run activates.
func (c *activateCmd) Run(ctx context.Context, m *Main, g *Globals) error {
	ref, err := c.ref()
	if err != nil {
		return err
	}
	return m.do(ctx, g, tenure.Activate{Ref: ref, Holder: m.holderOr(c.Holder, hostName)})
}

type renewCmd struct {
	held
}

// Run renews.
func (c *renewCmd) Run(ctx context.Context, m *Main, g *Globals) error {
	ref, err := c.ref()
	if err != nil {
		return err
	}
	return m.withEngine(ctx, g, func(eng tenure.Engine) error {
		ctx, cancel := bounded(ctx, eng, 0)
		defer cancel()
		each, err := eng.Renew(ctx, []tenure.Ref{ref})
		if err := errors.Join(append(each, err)...); err != nil {
			return err
		}
		l, err := eng.Lookup(ctx, tenure.Query{ID: ref.Token.Lease, Resource: ref.Resource})
		if err != nil {
			return err
		}
		m.printLease(g, l)
		return nil
	})
}

type releaseCmd struct {
	held
	Holder string `help:"${holder_help} Default: the host's name."`
	Failed string `placeholder:"WHY" help:"Say that the work failed, and why."`
}

// Run releases.
func (c *releaseCmd) Run(ctx context.Context, m *Main, g *Globals) error {
	ref, err := c.ref()
	if err != nil {
		return err
	}
	result := tenure.Result{Outcome: tenure.OutcomeOK}
	if c.Failed != "" {
		result = tenure.Result{Outcome: tenure.OutcomeFailed, Detail: c.Failed}
	}
	return m.do(ctx, g, tenure.Release{Ref: ref, Holder: m.holderOr(c.Holder, hostName), Result: result})
}

type revokeCmd struct {
	Lease  string `arg:"" help:"A lease id, or a resource."`
	Reason string `help:"Why; kept with the lease."`
}

// Run revokes.
func (c *revokeCmd) Run(ctx context.Context, m *Main, g *Globals) error {
	return m.named(ctx, g, c.Lease, func(l leaseName) tenure.Command {
		return tenure.Revoke{Lease: l.ID, Resource: l.Resource, Reason: c.Reason}
	})
}

type reclaimCmd struct {
	Lease        string `arg:"" help:"A lease id, or a resource."`
	HolderIsDead bool   `help:"Your assertion, recorded, that the holder does nothing any more."`
}

// Run reclaims.
func (c *reclaimCmd) Run(ctx context.Context, m *Main, g *Globals) error {
	return m.named(ctx, g, c.Lease, func(l leaseName) tenure.Command {
		return tenure.Reclaim{Lease: l.ID, Resource: l.Resource, HolderIsDead: c.HolderIsDead}
	})
}

// named finds the lease that an operator named by its resource, and executes
// the command on it.
func (m *Main) named(ctx context.Context, g *Globals, name string, command func(leaseName) tenure.Command) error {
	l, err := parseLeaseName(name)
	if err != nil {
		return err
	}
	return m.withEngine(ctx, g, func(eng tenure.Engine) error {
		ctx, cancel := bounded(ctx, eng, 0)
		defer cancel()
		if l.ID.IsZero() {
			found, err := eng.Lookup(ctx, tenure.Query{Resource: l.Resource})
			if err != nil {
				return err
			}
			l.ID = found.ID
		}
		return m.execute(ctx, g, eng, command(l))
	})
}

func (m *Main) do(ctx context.Context, g *Globals, c tenure.Command) error {
	return m.withEngine(ctx, g, func(eng tenure.Engine) error {
		ctx, cancel := bounded(ctx, eng, 0)
		defer cancel()
		return m.execute(ctx, g, eng, c)
	})
}

func (m *Main) execute(ctx context.Context, g *Globals, eng tenure.Engine, c tenure.Command) error {
	l, err := eng.Do(ctx, c)
	if err != nil {
		return err
	}
	m.printLease(g, l)
	return nil
}

type showCmd struct {
	Lease    string `arg:"" help:"A lease id, or a resource."`
	Resource string `arg:"" optional:"" help:"With an id: a resource of the lease; only NATS buckets need it."`
}

// Run looks one lease up.
func (c *showCmd) Run(ctx context.Context, m *Main, g *Globals) error {
	l, err := parseLeaseName(c.Lease)
	if err != nil {
		return err
	}
	if c.Resource != "" {
		if l.Resource, err = resourceName(c.Resource); err != nil {
			return err
		}
	}
	return m.withEngine(ctx, g, func(eng tenure.Engine) error {
		ctx, cancel := bounded(ctx, eng, 0)
		defer cancel()
		found, err := eng.Lookup(ctx, tenure.Query{ID: l.ID, Resource: l.Resource})
		if err != nil {
			return err
		}
		m.printLease(g, found)
		return nil
	})
}

type lsCmd struct {
	Namespace string `arg:"" optional:"" help:"Only resources in it."`
	Children  bool   `help:"And in namespaces below it."`
	Resource  string `help:"Only leases that cover it."`
	Holder    string `help:"Only this holder's."`
	State     string `help:"Only in this state."`
	Ended     bool   `help:"Ended leases that are still kept, too."`
	Watch     bool   `help:"Go on showing what becomes of leases."`
	From      string `placeholder:"POSITION" help:"With --watch: go on after this position, the first column of a watch."`
}

// Run lists or watches.
func (c *lsCmd) Run(ctx context.Context, m *Main, g *Globals) error {
	f, err := c.filter()
	if err != nil {
		return err
	}
	return m.withEngine(ctx, g, func(eng tenure.Engine) error {
		if c.Watch {
			return m.watch(ctx, g, eng, f)
		}
		var t table
		for l, err := range eng.List(ctx, f) {
			if err != nil {
				return err
			}
			if g.JSON {
				m.printLease(g, l)
				continue
			}
			t.add(l)
		}
		if !g.JSON {
			t.print(m.Stdout)
		}
		return nil
	})
}

func (c *lsCmd) filter() (f tenure.Filter, err error) {
	switch {
	case c.From != "" && !c.Watch:
		return f, usage("--from goes with --watch")
	case c.Ended && c.Watch:
		return f, usage("--ended is for lists: a watch shows every lease that ends")
	case c.Children && c.Namespace == "":
		return f, usage("--children goes with a namespace")
	}
	f = tenure.Filter{Namespace: tenure.Namespace(c.Namespace), Children: c.Children, Holder: tenure.Holder(c.Holder), Ended: c.Ended}
	if c.Resource != "" {
		if f.Resource, err = resourceName(c.Resource); err != nil {
			return f, err
		}
	}
	if c.State != "" {
		state, ok := tenure.ParseState(c.State)
		if !ok {
			return f, usage(fmt.Sprintf("--state %q is none of reserved, active, revoking, released, expired, revoked", c.State))
		}
		f.State, f.Ended = state, f.Ended || !state.Live()
	}
	if c.From != "" {
		f.From, err = tenure.ParsePosition(c.From)
	}
	if err == nil {
		err = f.Validate()
	}
	return f, err
}

// watch prints events until the program is asked to stop.
func (m *Main) watch(ctx context.Context, g *Globals, eng tenure.Engine, f tenure.Filter) error {
	for ev, err := range eng.Watch(ctx, f) {
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		m.printEvent(g, ev)
	}
	return nil
}
