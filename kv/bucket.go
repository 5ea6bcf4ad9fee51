package kv

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tenurehq/tenure"
)

// NATSOptions say what a bucket must be, and how the engine over it works.
type NATSOptions struct {
	Replicas int // at least so many are asked for, 1 to 5; 0 = 1
	Config   Config
}

// NATS is an engine over a bucket of NATS that exists. A bucket in which a
// lease could vanish or be lost is refused with an [*tenure.Error] that names
// what is wrong and the remedy; see [InitNATS]. The connection stays the
// caller's.
func NATS(ctx context.Context, js jetstream.JetStream, bucket string, o NATSOptions) (*Engine, error) {
	store, err := NATSStore(ctx, js, bucket, o)
	if err != nil {
		return nil, err
	}
	return New(store, o.Config)
}

// InitNATS creates a proper bucket: on file, with the replicas asked for, one
// value a key, nothing that expires. Its revisions begin at the clock's
// microseconds, so that a bucket that was lost and is created anew never
// repeats one: a late write meant for the old bucket cannot land in the new.
// A bucket that exists is checked like one that is opened, and left as it is.
func InitNATS(ctx context.Context, js jetstream.JetStream, bucket string, o NATSOptions) error {
	replicas, err := o.replicas()
	if err != nil {
		return err
	}
	if err := validBucket(bucket); err != nil {
		return err
	}
	if s, err := js.Stream(ctx, streamOf(bucket)); err == nil {
		return checkBucket(bucket, s.CachedInfo().Config, replicas)
	} else if !errors.Is(err, jetstream.ErrStreamNotFound) {
		return &tenure.Error{Code: tenure.ErrUnavailable, Cause: err, Why: fmt.Sprintf("bucket %q cannot be looked up", bucket)}
	}
	s, err := js.CreateStream(ctx, jetstream.StreamConfig{
		Name:              streamOf(bucket),
		Description:       "Leases of Tenure: one record per resource",
		Subjects:          []string{subjectsOf(bucket)},
		Storage:           jetstream.FileStorage,
		Replicas:          replicas,
		MaxMsgsPerSubject: 1,
		MaxMsgs:           -1,
		MaxBytes:          -1,
		MaxMsgSize:        -1,
		MaxConsumers:      -1,
		Discard:           jetstream.DiscardNew,
		Duplicates:        2 * time.Minute,
		AllowRollup:       true,
		DenyDelete:        true,
		AllowDirect:       true,
		FirstSeq:          uint64(max(1, o.wall()().UnixMicro())),
	})
	if err != nil {
		return &tenure.Error{Code: tenure.ErrUnavailable, Cause: err, Why: fmt.Sprintf("bucket %q with %d replicas on file cannot be created", bucket, replicas)}
	}
	return checkBucket(bucket, s.CachedInfo().Config, replicas)
}

func (o NATSOptions) replicas() (int, error) {
	if o.Replicas < 0 || o.Replicas > 5 {
		return 0, &tenure.Error{Code: tenure.ErrInvalid, Field: "replicas", Why: fmt.Sprintf("%d is out of range, 1 to 5 are allowed", o.Replicas)}
	}
	return max(1, o.Replicas), nil
}

func (o NATSOptions) wall() func() time.Time {
	if o.Config.Wall == nil {
		return time.Now
	}
	return o.Config.Wall
}

func streamOf(bucket string) string   { return "KV_" + bucket }
func subjectsOf(bucket string) string { return "$KV." + bucket + ".>" }

const maxBucketBytes = 128

func validBucket(bucket string) error {
	ok := bucket != "" && len(bucket) <= maxBucketBytes
	for i := range len(bucket) {
		ok = ok && plain(bucket[i]) && bucket[i] != '/'
	}
	if !ok {
		return &tenure.Error{Code: tenure.ErrInvalid, Field: "bucket", Why: fmt.Sprintf("%.80q is no bucket's name: 1 to %d letters, digits, '_' and '-' are allowed", bucket, maxBucketBytes)}
	}
	return nil
}

// leastValue is what the largest record needs.
const leastValue = 16 << 10

// checkBucket refuses a bucket in which a record could vanish, or an
// acknowledged write be lost, without anybody's doing. More than one value a
// key only costs space.
func checkBucket(bucket string, c jetstream.StreamConfig, replicas int) error {
	anew := "move the leases to a bucket made by: tenure kv init"
	for _, f := range []struct {
		bad          bool
		what, remedy string
	}{
		{c.MaxAge > 0, fmt.Sprintf("it has a TTL of %v, so a living holder's record would vanish", c.MaxAge), "remove the TTL (nats stream edit " + streamOf(bucket) + " --max-age=0), or " + anew},
		{c.AllowMsgTTL || c.SubjectDeleteMarkerTTL > 0, "its keys and deletion marks can expire", anew},
		{c.Storage != jetstream.FileStorage, "it is kept in memory, so a restart loses it", anew},
		{c.Replicas < replicas, fmt.Sprintf("it has %d replicas, %d are asked for", c.Replicas, replicas), fmt.Sprintf("raise them (nats stream edit %s --replicas=%d), or ask for fewer", streamOf(bucket), replicas)},
		{c.Retention != jetstream.LimitsPolicy, fmt.Sprintf("its retention is %v, so reading could remove records", c.Retention), anew},
		{c.MaxMsgsPerSubject < 1, "it is not a key-value bucket", anew},
		{c.Discard != jetstream.DiscardNew && (c.MaxMsgs > 0 || c.MaxBytes > 0), "when it is full it drops its oldest records", "let it discard new ones (nats stream edit " + streamOf(bucket) + " --discard=new), or " + anew},
		{c.NoAck, "it does not acknowledge writes", anew},
		{c.PersistMode != jetstream.DefaultPersistMode, "it acknowledges writes before it stores them", anew},
		{c.Sealed, "it is sealed", anew},
		{c.Mirror != nil || len(c.Sources) > 0 || c.SubjectTransform != nil, "it is fed from elsewhere", anew},
		{!slices.Equal(c.Subjects, []string{subjectsOf(bucket)}), fmt.Sprintf("it holds %q instead of its own keys", c.Subjects), anew},
		{c.MaxMsgSize > 0 && c.MaxMsgSize < leastValue, fmt.Sprintf("it takes values of %d bytes at most, a record may need %d", c.MaxMsgSize, leastValue), "allow larger ones (nats stream edit " + streamOf(bucket) + " --max-msg-size=-1)"},
	} {
		if f.bad {
			return &tenure.Error{Code: tenure.ErrInvalid, Field: "bucket", Why: fmt.Sprintf("bucket %q is not safe for leases: %s; %s", bucket, f.what, f.remedy)}
		}
	}
	return nil
}
