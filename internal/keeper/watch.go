//go:build linux || darwin || freebsd || openbsd || dragonfly

package keeper

import (
	"encoding/gob"
	"syscall"
	"time"
)

// watchState is what the agent's watch remembers between two steps.
type watchState struct {
	sentTerm, sentKill time.Duration // what the keeper was told last
	inFlight           bool          // an extension is unanswered
	sentStop           time.Duration // the kill deadline of the last Stop that was sent; 0: none
	told               bool          // the keeper says that it sent SIGTERM
	termed             bool          // we sent SIGTERM
	leaderDead         bool
	acted              bool          // we sent SIGTERM or SIGKILL to a leader that lived
	next               time.Duration // of the next sweep; 0: none yet
	cleanSince         time.Duration // no process was left; 0: not yet
}

// read passes on what the keeper says until it is gone.
func (c *Child) read(in *gob.Decoder) {
	defer close(c.inbox)
	for {
		var m message
		if in.Decode(&m) != nil {
			return
		}
		select {
		case c.inbox <- m:
		case <-c.done:
			return
		}
	}
}

// watch enforces the same deadlines as the keeper, for the case that the keeper is frozen or dead: whoever is
// alive acts.
func (c *Child) watch() {
	leader := c.group.dead
	for {
		c.step()
		c.alarm.set(c.due())
		select {
		case m, ok := <-c.inbox:
			if !ok {
				c.bury()
				return
			}
			if m.Kind == kindExit {
				c.finish(c.attribute(m.Exit), nil)
				return
			}
			c.heard(m)
		case <-leader:
			leader = nil
			c.leaderDied()
		case <-c.alarm.C:
		case <-c.poke:
		}
	}
}

// attribute names the cause of an end that this side brought about before the keeper got to it.
func (c *Child) attribute(exit Exit) Exit {
	if exit.Cause != Itself || !c.state.acted {
		return exit
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	exit.Cause = Expired
	if c.stopping {
		exit.Cause = Stopped
	}
	return exit
}

func (c *Child) heard(m message) {
	switch m.Kind {
	case kindExtended:
		c.state.inFlight = false
	case kindEnding:
		c.state.told = true
		c.mu.Lock()
		c.ending = true
		c.mu.Unlock()
	}
}

// leaderDied bounds the time that a keeper has to finish off what the child left behind, in the keeper's own
// way. A frozen one would otherwise hide the end for as long as the lease is renewed.
func (c *Child) leaderDied() {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.clock.Now()
	c.ending = true
	c.kill = min(c.kill, now+c.kill-c.term)
	c.term = min(c.term, now)
	c.state.leaderDead = true
	c.state.told = true // SIGTERM for what is left is the keeper's; SIGKILL is what we make sure of
}

// slack is the keeper's head start at the term deadline, a quarter of the time until SIGKILL, so that a child
// normally gets one SIGTERM and not two: many programs take a second one as "at once". It never delays SIGKILL.
func slack(term, kill time.Duration) time.Duration { return min((kill-term)/4, maxSlack) }

// due is when step has to run next if nothing happens.
func (c *Child) due() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch s := &c.state; {
	case s.next > 0:
		return s.next
	case !s.told && !s.termed:
		return c.term + slack(c.term, c.kill)
	default:
		return c.kill
	}
}

// step tells the keeper what is new and does what is due.
func (c *Child) step() {
	c.mu.Lock()
	now, term, kill, stopping := c.clock.Now(), c.term, c.kill, c.stopping
	if now >= term {
		c.ending = true
	}
	c.mu.Unlock()
	c.tell(term, kill, stopping)
	s := &c.state
	switch {
	case now >= kill:
		s.acted = s.acted || !s.leaderDead
		c.sweep(now)
	case now >= term+slack(term, kill) && !s.told && !s.termed:
		s.termed, s.acted = true, true
		c.group.terminate()
	}
}

// tell writes to the keeper. An error means that it is dead, which its silence tells watch as well.
func (c *Child) tell(term, kill time.Duration, stopping bool) {
	s := &c.state
	switch {
	case stopping && (s.sentStop == 0 || kill < s.sentStop):
		s.sentStop = kill
		_ = c.out.Encode(message{Kind: kindStop, Kill: kill})
	case !stopping && !s.inFlight && (term > s.sentTerm || kill > s.sentKill):
		s.sentTerm, s.sentKill, s.inFlight = term, kill, true
		_ = c.out.Encode(message{Kind: kindExtend, Term: term, Kill: kill})
	}
}

// sweep kills everything that is left, again and again until nothing is, and then the keeper if it does not
// report the end.
func (c *Child) sweep(now time.Duration) {
	s := &c.state
	switch {
	case now < s.next:
	case c.group.sweep():
		s.next, s.cleanSince = now+recheck, 0
	case s.cleanSince == 0:
		s.cleanSince, s.next = now, now+patience
	case now >= s.cleanSince+patience:
		_ = c.keeper.Process.Kill() // closes inbox
		s.next = now + patience
	}
}

// bury ends a child that has lost its keeper: the group at once, and whoever of its descendants left the group.
func (c *Child) bury() {
	_ = c.group.signal(syscall.SIGKILL)
	_ = c.keeper.Process.Kill() // it may have closed its end without dying
	_ = c.keeper.Wait()
	c.group.keeper = 0
	for c.group.sweep() {
		c.alarm.set(c.clock.Now() + recheck)
		<-c.alarm.C
	}
	c.group.returnTerminal()
	c.finish(Exit{Code: 128 + int(syscall.SIGKILL), Signal: syscall.SIGKILL, Cause: Unkept}, ErrKeeperLost)
}

func (c *Child) finish(exit Exit, err error) {
	c.exit, c.err = exit, err
	close(c.done)
	c.wire.Close()
	c.alarm.close()
	c.group.close()
	_ = c.keeper.Process.Kill() // all it had left to do was to exit
	_ = c.keeper.Wait()
}
