package server

import (
	"fmt"
	"sync"

	"github.com/tenurehq/tenure"
)

// quota bounds how many claims wait for each client.
type quota struct {
	most int
	mu   sync.Mutex
	used map[string]int
}

func (q *quota) enter(client string) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.used[client] >= q.most {
		return &tenure.Error{Code: tenure.ErrFull, Field: "waiters", Why: fmt.Sprintf("%d claims wait on this connection, as many as one may have: try again later", q.most)}
	}
	q.used[client]++
	return nil
}

func (q *quota) leave(client string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.used[client]--; q.used[client] == 0 {
		delete(q.used, client)
	}
}
