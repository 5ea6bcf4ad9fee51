// Package holdgrpc carries a hold over gRPC: the client's interceptors send its
// token, its resources and the time that remains with each call made under it,
// and the server's turn them back into a context, where [hold.Token] finds the
// token and which ends when the time is over.
//
// The time is sent as a duration, since no wall clock is compared across
// machines, and counts from the moment the server read it: the way there is
// added to it. It spares a server work that comes too late. That a stale holder
// does no harm is guaranteed by checking the token where it writes (package
// fence), not by this deadline.
//
// A call, streams included, lasts no longer than what remained of the hold when
// it began: a renewal that comes later does not reach a call under way.
//
//	conn, err := grpc.NewClient(addr,
//		grpc.WithUnaryInterceptor(holdgrpc.UnaryClient),
//		grpc.WithStreamInterceptor(holdgrpc.StreamClient))
//	srv := grpc.NewServer(
//		grpc.UnaryInterceptor(holdgrpc.UnaryServer),
//		grpc.StreamInterceptor(holdgrpc.StreamServer))
package holdgrpc

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/tenurehq/tenure"
	"github.com/tenurehq/tenure/hold"
)

// The metadata of a call made under a hold. Names of resources are
// percent-encoded where they are not plain ASCII.
const (
	TokenKey     = "tenure-token"        // once: 0-42.1
	ResourceKey  = "tenure-resource"     // once for each resource of the lease
	RemainingKey = "tenure-remaining-ms" // at most once; without it the lease has no TTL
)

const (
	maxResources   = 1_024 // the widest bundle that any engine accepts
	maxEncodedName = 3 * tenure.MaxResourceBytes
)

// write returns ctx with the proof as outgoing metadata, in place of any that it
// inherited.
func write(ctx context.Context, p hold.Proof) context.Context {
	md, _ := metadata.FromOutgoingContext(ctx)
	md = md.Copy()
	md.Set(TokenKey, p.Token.String())
	md.Delete(ResourceKey)
	for _, r := range p.Resources {
		md.Append(ResourceKey, strings.ReplaceAll(url.PathEscape(string(r)), "%2F", "/"))
	}
	md.Delete(RemainingKey)
	if p.Remaining != hold.Forever {
		md.Set(RemainingKey, strconv.FormatInt(p.Remaining.Milliseconds(), 10))
	}
	return metadata.NewOutgoingContext(ctx, md)
}

// read returns the proof that came with a call; ok is false if none came. What
// is malformed is refused with codes.InvalidArgument.
func read(ctx context.Context) (p hold.Proof, ok bool, err error) {
	md, _ := metadata.FromIncomingContext(ctx)
	tokens, resources, remaining := md.Get(TokenKey), split(md.Get(ResourceKey)), md.Get(RemainingKey)
	if len(tokens)+len(resources)+len(remaining) == 0 {
		return hold.Proof{}, false, nil
	}
	if len(tokens) != 1 || len(resources) == 0 || len(resources) > maxResources || len(remaining) > 1 {
		return hold.Proof{}, false, malformed(fmt.Errorf("%d %s, %d %s, %d %s: a call under a hold carries one token, the resources of its lease and at most one duration",
			len(tokens), TokenKey, len(resources), ResourceKey, len(remaining), RemainingKey))
	}
	if p.Token, err = tenure.ParseToken(tokens[0]); err != nil {
		return hold.Proof{}, false, malformed(err)
	}
	for _, encoded := range resources {
		r, err := readResource(encoded)
		if err != nil {
			return hold.Proof{}, false, malformed(err)
		}
		p.Resources = append(p.Resources, r)
	}
	p.Remaining = hold.Forever
	if len(remaining) == 1 {
		ms, err := strconv.ParseUint(remaining[0], 10, 32)
		if err != nil {
			return hold.Proof{}, false, malformed(fmt.Errorf("%s is not a number of milliseconds in 32 bits", RemainingKey))
		}
		p.Remaining = time.Duration(ms) * time.Millisecond
	}
	return p, true, nil
}

// split undoes what an intermediary joined: gRPC lets it put several values of
// one key into one, with commas between them.
func split(values []string) (names []string) {
	for _, value := range values {
		for name := range strings.SplitSeq(value, ",") {
			names = append(names, strings.Trim(name, " \t"))
		}
	}
	return names
}

func readResource(encoded string) (tenure.Resource, error) {
	if len(encoded) > maxEncodedName {
		return "", fmt.Errorf("%s has %d bytes, at most %d are allowed", ResourceKey, len(encoded), maxEncodedName)
	}
	name, err := url.PathUnescape(encoded)
	if err != nil {
		return "", fmt.Errorf("%s is not percent-encoded: %w", ResourceKey, err)
	}
	return tenure.ParseResource(name)
}

func malformed(err error) error {
	return status.Error(codes.InvalidArgument, err.Error())
}
