// Package server puts any [tenure.Engine] on the network: one port that speaks
// gRPC and, for curl and every other language, the same methods as JSON over
// HTTP/1.1.
//
// Without TLS the two are told apart by the preface that HTTP/2 begins with;
// under TLS by what the client offers, and one that offers http/1.1 gets it.
// JSON is POST /tenure.v1.LeaseService/METHOD with one object as body; streams
// are answered as one object a line. /healthz, /readyz and /metrics are on the
// same port.
//
// A call that waits for a lease ends when its connection does. One that does
// not wait is carried to its end even if its caller has gone: its operation
// can be repeated, and the repeat is told what became of it.
//
// Everything that a client can make the server keep is bounded: messages,
// connections, streams, calls in flight, waits, open listings. Reaching a
// bound is a refusal that names it, or, for calls in flight, a stream that is
// not read further until some are answered.
package server
