// Command store is a resource that protects itself: one value behind HTTP that
// can be written by whoever owns demo/store, and by nobody who owned it before.
//
//	curl -H "Tenure-Resource: demo/store" -H "Tenure-Token: $TENURE_TOKEN" -d "a value" http://127.0.0.1:7071
package main

import (
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/tenurehq/tenure"
	"github.com/tenurehq/tenure/fence"
)

const resource = tenure.Resource("demo/store")

func main() {
	listen := flag.String("listen", "127.0.0.1:7071", "address to listen on")
	dir := flag.String("dir", "./store-data", "where the value and the highest token are kept")
	flag.Parse()
	if err := serve(*listen, *dir); err != nil {
		log.Fatal(err)
	}
}

func serve(listen, dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	marks, err := fence.File(filepath.Join(dir, "fence"))
	if err != nil {
		return err
	}
	s := &http.Server{
		Addr:              listen,
		Handler:           handler(filepath.Join(dir, "value"), marks),
		ReadHeaderTimeout: 10 * time.Second,
	}
	return s.ListenAndServe()
}

// handler lets everybody read, and the current owner write.
func handler(file string, marks fence.Store) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /", func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, file) })
	mux.Handle("POST /", fence.Handler(write(file), marks, fence.WithAccept(
		func(_ *http.Request, r tenure.Resource) bool { return r == resource })))
	return mux
}

func write(file string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		value, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
		if err == nil {
			err = os.WriteFile(file, value, 0o600)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		fmt.Fprintf(w, "stored: %s\n", value)
	})
}
