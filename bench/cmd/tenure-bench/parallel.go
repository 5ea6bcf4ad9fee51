package main

import (
	"sync"
	"sync/atomic"
)

// parallel does f for 0 to n-1, 64 at a time, and returns the first error.
func parallel(n int, f func(i int) error) error {
	var next atomic.Int64
	var once sync.Once
	var failed error
	var running sync.WaitGroup
	for range min(n, 64) {
		running.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				if err := f(i); err != nil {
					once.Do(func() { failed = err })
					return
				}
			}
		})
	}
	running.Wait()
	return failed
}
