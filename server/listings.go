package server

import (
	"context"
	"crypto/rand"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/tenurehq/tenure"
	"github.com/tenurehq/tenure/internal/wire"
	pb "github.com/tenurehq/tenure/proto/tenure/v1"
)

// Bounds of listings that have a further page (T12).
const (
	maxListings = 64
	listingIdle = time.Minute // a listing whose next page nobody asks for is dropped
)

// listings keeps the engine's sequences open between pages. Engines differ in
// their order, so a page cannot be found again by where the last one ended.
type listings struct {
	base   context.Context
	engine tenure.Engine
	mu     sync.Mutex
	open   map[string]*listing
}

func newListings(base context.Context, engine tenure.Engine) *listings {
	return &listings{base: base, engine: engine, open: make(map[string]*listing)}
}

// page answers one List call.
func (ls *listings) page(m *pb.ListRequest) (*pb.ListResponse, error) {
	size := int(m.GetPageSize())
	if size > tenure.MaxPageSize {
		return nil, &tenure.Error{Code: tenure.ErrInvalid, Field: "page_size", Why: fmt.Sprintf("%d, at most %d are allowed", size, tenure.MaxPageSize)}
	}
	if size == 0 {
		size = tenure.MaxPageSize
	}
	if m.GetPageToken() != "" {
		return ls.further(m, size)
	}
	f, err := wire.ToList(m)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ls.base)
	l := &listing{asked: filterOf(m)}
	next, stop := iter.Pull2(ls.engine.List(ctx, f))
	l.next, l.stop = next, func() { stop(); cancel() }
	page, err := l.take(size)
	if err != nil || !l.more() {
		l.stop()
		return page, err
	}
	if page.NextPageToken, err = ls.keep(l); err != nil {
		l.stop()
		return nil, err
	}
	return page, nil
}

// further answers with the next page of a listing, or with the last one again:
// its answer may have been lost.
func (ls *listings) further(m *pb.ListRequest, size int) (*pb.ListResponse, error) {
	id, number, _ := strings.Cut(m.GetPageToken(), ".")
	ls.mu.Lock()
	l := ls.open[id]
	ls.mu.Unlock()
	unknown := &tenure.Error{Code: tenure.ErrInvalid, Field: "page_token", Why: "this listing is not known here, or not any more: list again from the start"}
	if l == nil {
		return nil, unknown
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !proto.Equal(l.asked, filterOf(m)) {
		return nil, &tenure.Error{Code: tenure.ErrInvalid, Field: "page_token", Why: "it is from a listing with another filter: repeat the filter with every page"}
	}
	if l.last != nil && number == strconv.Itoa(l.pages-1) {
		return proto.Clone(l.last).(*pb.ListResponse), nil
	}
	if l.over || number != strconv.Itoa(l.pages) {
		return nil, unknown
	}
	page, err := l.take(size)
	if err != nil || !l.more() {
		ls.drop(id)
		l.end()
		return page, err
	}
	l.pages++
	page.NextPageToken = id + "." + strconv.Itoa(l.pages)
	l.last = proto.Clone(page).(*pb.ListResponse)
	l.idle.Reset(listingIdle)
	return page, nil
}

// keep opens a listing for its next page.
func (ls *listings) keep(l *listing) (string, error) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if len(ls.open) >= maxListings {
		return "", &tenure.Error{Code: tenure.ErrFull, Field: "listings", Why: fmt.Sprintf("%d listings are open, as many as there may be: try again in a minute, or narrow the filter to fit one page", maxListings)}
	}
	id := rand.Text()
	l.pages = 1
	l.idle = time.AfterFunc(listingIdle, func() {
		ls.drop(id)
		l.mu.Lock()
		defer l.mu.Unlock()
		l.end()
	})
	ls.open[id] = l
	return id + ".1", nil
}

func (ls *listings) drop(id string) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	delete(ls.open, id)
}

func (ls *listings) close() {
	ls.mu.Lock()
	open := ls.open
	ls.open = make(map[string]*listing)
	ls.mu.Unlock()
	for _, l := range open {
		l.mu.Lock()
		l.end()
		l.mu.Unlock()
	}
}

// listing is a sequence of leases of which some pages were given.
type listing struct {
	asked *pb.ListRequest
	next  func() (tenure.Lease, error, bool)
	stop  func()
	ahead *pb.Lease // the first of the next page
	fails error     // what the sequence ended with, for the next page

	mu    sync.Mutex
	pages int              // the number of the next page; the first is 0
	last  *pb.ListResponse // the page before
	idle  *time.Timer
	over  bool
}

// maxPageWeight ends a page early, in bytes: a page is one message.
const maxPageWeight = 256 << 10

// take makes a page of what comes next.
func (l *listing) take(size int) (*pb.ListResponse, error) {
	page := &pb.ListResponse{}
	weight := 0
	if l.ahead == nil && l.fails == nil {
		l.ahead, l.fails = l.pull()
	}
	for l.ahead != nil && len(page.Leases) < size && weight < maxPageWeight {
		weight += proto.Size(l.ahead)
		page.Leases = append(page.Leases, l.ahead)
		l.ahead, l.fails = l.pull()
	}
	if len(page.Leases) == 0 && l.fails != nil {
		return nil, l.fails
	}
	return page, nil
}

func (l *listing) pull() (*pb.Lease, error) {
	lease, err, ok := l.next()
	if !ok || err != nil {
		return nil, err
	}
	return wire.FromLease(&lease), nil
}

// more reports whether there is a further page, if only an error.
func (l *listing) more() bool { return l.ahead != nil || l.fails != nil }

// end frees the sequence; the caller holds mu.
func (l *listing) end() {
	if l.over {
		return
	}
	l.over, l.last = true, nil
	l.idle.Stop()
	l.stop()
}

// filterOf is the part of a request that must not change from page to page.
func filterOf(m *pb.ListRequest) *pb.ListRequest {
	f := proto.Clone(m).(*pb.ListRequest)
	f.PageSize, f.PageToken = 0, ""
	return f
}
