package server

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"maps"
	"net"
	"slices"
	"sync"
	"time"
)

// door takes every connection of the port and passes it to the server that
// speaks its protocol.
type door struct {
	listener net.Listener
	secure   *tlsFiles
	patience time.Duration
	most     int
	metrics  *metrics
	log      *slog.Logger

	rpc, http *side

	mu      sync.Mutex
	open    int                   // connections, those passed on included
	knocks  map[net.Conn]struct{} // those not passed on yet
	closed  bool
	sorting sync.WaitGroup
}

func newDoor(l net.Listener, secure *tlsFiles, cfg Config, m *metrics, log *slog.Logger) *door {
	return &door{
		listener: l, secure: secure, patience: cfg.HeaderTimeout, most: cfg.MaxConns, metrics: m, log: log,
		rpc: newSide(l.Addr()), http: newSide(l.Addr()), knocks: make(map[net.Conn]struct{}),
	}
}

// accept runs until the listener is closed or broken.
func (d *door) accept() error {
	pause := 5 * time.Millisecond
	for {
		c, err := d.listener.Accept()
		var temporary interface{ Temporary() bool }
		switch {
		case err == nil:
			pause = 5 * time.Millisecond
			d.admit(c)
		case errors.Is(err, net.ErrClosed):
			return nil
		case errors.As(err, &temporary) && temporary.Temporary(): // out of file descriptors: those in use will be closed
			d.log.Warn("accept failed, trying again", "err", err, "in", pause)
			d.rest(pause)
			pause = min(2*pause, time.Second)
		default:
			return err
		}
	}
}

// rest waits, unless the door is closed.
func (d *door) rest(pause time.Duration) {
	t := time.NewTimer(pause)
	defer t.Stop()
	select {
	case <-t.C:
	case <-d.rpc.closed:
	}
}

// admit counts the connection and sorts it, or closes it.
func (d *door) admit(c net.Conn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed || d.open >= d.most {
		d.metrics.turnedAway.Inc()
		_ = c.Close()
		return
	}
	d.open++
	d.metrics.conns.Inc()
	counted := &conn{Conn: c, left: d.left}
	d.knocks[counted] = struct{}{}
	d.sorting.Go(func() { d.sort(counted) })
}

func (d *door) left() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.open--
	d.metrics.conns.Dec()
}

// sort finds out what the client speaks and passes the connection on.
func (d *door) sort(c *conn) {
	_ = c.SetDeadline(time.Now().Add(d.patience))
	rest, isRPC, err := d.listen(c)
	d.mu.Lock()
	delete(d.knocks, c)
	d.mu.Unlock()
	if err != nil {
		d.log.Debug("connection dropped before its first request", "from", c.RemoteAddr(), "err", err)
		_ = c.Close()
		return
	}
	_ = c.SetDeadline(time.Time{})
	to := d.http
	if isRPC {
		to = d.rpc
	}
	if !to.pass(rest) {
		_ = rest.Close()
	}
}

// preface is what every HTTP/2 connection begins with, as far as it takes to
// know that it is no HTTP/1.1 request.
const preface = "PRI * HTTP/2.0\r\n"

// listen reads just enough to tell HTTP/2 from HTTP/1.1, under TLS or not.
func (d *door) listen(c *conn) (net.Conn, bool, error) {
	var inner net.Conn = c
	if d.secure != nil {
		secured := tls.Server(c, d.secure.config)
		if err := secured.HandshakeContext(context.Background()); err != nil { // the deadline bounds it
			var plain tls.RecordHeaderError
			if errors.As(err, &plain) && plain.Conn != nil {
				_, _ = plain.Conn.Write([]byte("HTTP/1.0 400 Bad Request\r\n\r\nThis port speaks TLS: write https://\n"))
			}
			return nil, false, err
		}
		inner = secured
	}
	read := make([]byte, 0, len(preface))
	for len(read) < len(preface) {
		n, err := inner.Read(read[len(read):cap(read)])
		read = read[:len(read)+n]
		if string(read) != preface[:len(read)] {
			return &replayed{Conn: inner, read: read}, false, nil
		}
		if err != nil {
			return nil, false, err
		}
	}
	return &replayed{Conn: inner, read: read}, true, nil
}

// close takes no more connections and drops those not passed on yet.
func (d *door) close() {
	_ = d.listener.Close()
	d.mu.Lock()
	d.closed = true
	knocks := slices.Collect(maps.Keys(d.knocks))
	d.mu.Unlock()
	for _, c := range knocks { // closing one counts it out, under mu
		_ = c.Close()
	}
	d.rpc.shut()
	d.http.shut()
	d.sorting.Wait()
}

// conn counts one connection until it is closed.
type conn struct {
	net.Conn
	once sync.Once
	left func()
}

func (c *conn) Close() error {
	c.once.Do(c.left)
	return c.Conn.Close()
}

// replayed gives back what was read to tell the protocols apart.
type replayed struct {
	net.Conn
	read []byte
}

func (c *replayed) Read(b []byte) (int, error) {
	if len(c.read) > 0 {
		n := copy(b, c.read)
		c.read = c.read[n:]
		return n, nil
	}
	return c.Conn.Read(b)
}

// side is the listener of one of the servers behind the door.
type side struct {
	addr   net.Addr
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newSide(addr net.Addr) *side {
	return &side{addr: addr, conns: make(chan net.Conn), closed: make(chan struct{})}
}

func (s *side) pass(c net.Conn) bool {
	select {
	case s.conns <- c:
		return true
	case <-s.closed:
		return false
	}
}

func (s *side) Accept() (net.Conn, error) {
	select {
	case c := <-s.conns:
		return c, nil
	case <-s.closed:
		return nil, net.ErrClosed
	}
}

func (s *side) shut() { s.once.Do(func() { close(s.closed) }) }

// Close leaves the real listener to the door.
func (s *side) Close() error   { s.shut(); return nil }
func (s *side) Addr() net.Addr { return s.addr }
