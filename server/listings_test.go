package server

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/tenurehq/tenure"
	pb "github.com/tenurehq/tenure/proto/tenure/v1"
)

// shelf is an engine of which only List is asked: n leases, then perhaps an
// error. It counts the sequences that are open.
type shelf struct {
	tenure.Engine
	n     int
	meta  []byte
	fails error
	open  atomic.Int64
}

func (e *shelf) List(ctx context.Context, f tenure.Filter) iter.Seq2[tenure.Lease, error] {
	return func(yield func(tenure.Lease, error) bool) {
		e.open.Add(1)
		defer e.open.Add(-1)
		for i := range e.n {
			if !yield(tenure.Lease{ID: tenure.LeaseID{LSN: tenure.LSN(i + 1)}, State: tenure.StateActive, Meta: e.meta}, nil) {
				return
			}
		}
		if e.fails != nil {
			yield(tenure.Lease{}, e.fails)
		}
	}
}

func TestListingGivesEveryLeaseOnce(t *testing.T) {
	for _, c := range []struct{ n, size, pages int }{
		{0, 3, 1}, {1, 3, 1}, {3, 3, 1}, {4, 3, 2}, {6, 3, 2}, {7, 3, 3}, {1000, 0, 1}, {1001, 0, 2},
	} {
		e := &shelf{n: c.n}
		ls := newListings(t.Context(), e)
		m := &pb.ListRequest{Namespace: "a", PageSize: uint32(c.size)}
		var got []*pb.Lease
		pages := 0
		for ; pages == 0 || m.PageToken != ""; pages++ {
			page := twice(t, ls, m)
			got = append(got, page.Leases...)
			m.PageToken = page.NextPageToken
		}
		for i, l := range got {
			if l.LeaseId != fmt.Sprintf("0-%d", i+1) {
				t.Fatalf("%+v: lease %d is %s", c, i, l.LeaseId)
			}
		}
		if len(got) != c.n || pages != c.pages || e.open.Load() != 0 || len(ls.open) != 0 {
			t.Errorf("%+v: %d leases on %d pages; %d sequences, %d listings are left", c, len(got), pages, e.open.Load(), len(ls.open))
		}
	}
}

// twice asks for a page, and once more, as if the answer had been lost, where
// that can be answered: not on the first page, which begins a listing, and not
// on the last, with which it is over.
func twice(t *testing.T, ls *listings, m *pb.ListRequest) *pb.ListResponse {
	t.Helper()
	page, err := ls.page(m)
	if err != nil {
		t.Fatal(err)
	}
	if m.PageToken == "" || page.NextPageToken == "" {
		return page
	}
	again, err := ls.page(m)
	if err != nil || !proto.Equal(again, page) {
		t.Fatalf("a repeated page differs: %v", err)
	}
	return again
}

func TestListingPageIsBoundedInBytes(t *testing.T) {
	ls := newListings(t.Context(), &shelf{n: 1000, meta: make([]byte, 4<<10)})
	defer ls.close()
	page, err := ls.page(&pb.ListRequest{})
	if err != nil || page.NextPageToken == "" || proto.Size(page) > maxPageWeight+8<<10 {
		t.Fatalf("a page of %d bytes, %v", proto.Size(page), err)
	}
}

func TestListingErrors(t *testing.T) {
	halted := &tenure.Error{Code: tenure.ErrHalted}
	e := &shelf{n: 2, fails: halted}
	ls := newListings(t.Context(), e)
	page, err := ls.page(&pb.ListRequest{PageSize: 2})
	if err != nil || len(page.Leases) != 2 || page.NextPageToken == "" {
		t.Fatalf("%v %v", page, err)
	}
	other := &pb.ListRequest{PageSize: 2, PageToken: page.NextPageToken, Holder: "x"}
	if _, err := ls.page(other); !errors.Is(err, tenure.ErrInvalid) {
		t.Errorf("another filter: %v", err)
	}
	if _, err := ls.page(&pb.ListRequest{PageToken: page.NextPageToken + "0"}); !errors.Is(err, tenure.ErrInvalid) {
		t.Errorf("a page far ahead: %v", err)
	}
	if _, err := ls.page(&pb.ListRequest{PageToken: page.NextPageToken}); !errors.Is(err, tenure.ErrHalted) {
		t.Errorf("the engine's error came as %v", err)
	}
	if e.open.Load() != 0 {
		t.Error("the sequence was left open")
	}
}

// proves: T12
func TestListingsAreBoundedAndDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &shelf{n: 3}
		ls := newListings(t.Context(), e)
		m := &pb.ListRequest{PageSize: 1}
		var first *pb.ListResponse
		for i := range maxListings {
			page, err := ls.page(m)
			if err != nil {
				t.Fatal(err)
			}
			if i == 0 {
				first = page
			}
		}
		var full *tenure.Error
		if _, err := ls.page(m); !errors.As(err, &full) || full.Code != tenure.ErrFull || full.Field != "listings" {
			t.Fatalf("one listing too many: %v", err)
		}
		synctest.Wait()
		if e.open.Load() != maxListings {
			t.Fatalf("%d sequences are open", e.open.Load())
		}
		<-time.After(listingIdle - time.Second)
		second, err := ls.page(&pb.ListRequest{PageSize: 1, PageToken: first.NextPageToken})
		if err != nil {
			t.Fatal(err)
		}
		<-time.After(2 * time.Second)
		synctest.Wait()
		if e.open.Load() != 1 {
			t.Fatalf("%d sequences are open, one was used within the minute", e.open.Load())
		}
		<-time.After(listingIdle)
		synctest.Wait()
		if _, err := ls.page(&pb.ListRequest{PageSize: 1, PageToken: second.NextPageToken}); !errors.Is(err, tenure.ErrInvalid) || e.open.Load() != 0 {
			t.Fatalf("after a minute: %v, %d sequences", err, e.open.Load())
		}
		if _, err := ls.page(m); err != nil {
			t.Fatal(err)
		}
		ls.close()
		if e.open.Load() != 0 {
			t.Fatal("closing left a sequence open")
		}
	})
}
