package kv

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tenurehq/tenure"
)

// natsStore is a [Store] over one bucket of NATS.
//
// Reads go to the leader of the stream: the client's own Get may be answered
// by a replica that lags, and hides where the mark of a deletion stands. For
// the latter reason keys are not made by the client's Create either, which
// writes over such a mark by itself.
type natsStore struct {
	js       jetstream.JetStream
	values   jetstream.KeyValue
	stream   jetstream.Stream
	bucket   string
	replicas int
	read     string // where the leader answers reads
}

// NATSStore is the store that [NATS] opens its engine over.
func NATSStore(ctx context.Context, js jetstream.JetStream, bucket string, o NATSOptions) (Store, error) {
	replicas, err := o.replicas()
	if err != nil {
		return nil, err
	}
	if err := validBucket(bucket); err != nil {
		return nil, err
	}
	s := &natsStore{js: js, bucket: bucket, replicas: replicas, read: apiPrefix(js.Options()) + "STREAM.MSG.GET." + streamOf(bucket)}
	if s.stream, err = js.Stream(ctx, streamOf(bucket)); err != nil {
		return nil, s.failed(err)
	}
	if err := checkBucket(bucket, s.stream.CachedInfo().Config, replicas); err != nil {
		return nil, err
	}
	if s.values, err = js.KeyValue(ctx, bucket); err != nil {
		return nil, s.failed(err)
	}
	return s, nil
}

func apiPrefix(o jetstream.JetStreamOptions) string {
	switch {
	case o.Domain != "":
		return "$JS." + o.Domain + ".API."
	case o.APIPrefix != "":
		return strings.TrimSuffix(o.APIPrefix, ".") + "."
	}
	return jetstream.DefaultAPIPrefix
}

// storedMessage is the leader's answer to a read.
type storedMessage struct {
	Error   *jetstream.APIError `json:"error"`
	Message *struct {
		Revision uint64    `json:"seq"`
		Data     []byte    `json:"data"`
		Header   []byte    `json:"hdrs"`
		Created  time.Time `json:"time"`
	} `json:"message"`
}

func (s *natsStore) Get(ctx context.Context, key string) (Entry, error) {
	if err := s.fits(key); err != nil {
		return Entry{}, err
	}
	ask, err := json.Marshal(map[string]string{"last_by_subj": "$KV." + s.bucket + "." + key})
	if err != nil {
		return Entry{}, err
	}
	answer, err := s.js.Conn().RequestWithContext(ctx, s.read, ask)
	if err != nil {
		return Entry{}, s.failed(err)
	}
	var got storedMessage
	if err := json.Unmarshal(answer.Data, &got); err != nil {
		return Entry{}, fmt.Errorf("kv: the answer of bucket %q does not read: %w", s.bucket, err)
	}
	switch {
	case got.Error != nil && got.Error.ErrorCode == jetstream.JSErrCodeMessageNotFound:
		return Entry{Key: key, Absent: true}, nil
	case got.Error != nil:
		return Entry{}, s.failed(got.Error)
	case got.Message == nil:
		return Entry{}, fmt.Errorf("kv: the answer of bucket %q is empty", s.bucket)
	}
	e := Entry{Key: key, Value: got.Message.Data, Revision: got.Message.Revision, Created: got.Message.Created}
	if len(got.Message.Header) > 0 {
		header, err := nats.DecodeHeadersMsg(got.Message.Header)
		if err != nil {
			return Entry{}, fmt.Errorf("kv: the header of key %q does not read: %w", key, err)
		}
		e.Absent = header.Get("KV-Operation") != "" || header.Get(jetstream.MarkerReasonHeader) != ""
	}
	return e, nil
}

func (s *natsStore) Create(ctx context.Context, key string, value []byte) (uint64, error) {
	return s.Update(ctx, key, value, 0)
}

func (s *natsStore) Update(ctx context.Context, key string, value []byte, revision uint64) (uint64, error) {
	if err := s.fits(key); err != nil {
		return 0, errors.Join(ErrNotWritten, err)
	}
	if ctx.Err() != nil {
		return 0, errors.Join(ErrNotWritten, context.Cause(ctx))
	}
	written, err := s.values.Update(ctx, key, value, revision)
	switch {
	case err == nil:
		return written, nil
	case errors.Is(err, jetstream.ErrKeyRevisionMismatch):
		return 0, fmt.Errorf("%w: %w", ErrRevision, err)
	case errors.Is(err, jetstream.ErrNoStreamResponse), errors.Is(err, nats.ErrNoResponders),
		errors.Is(err, nats.ErrMaxPayload), errors.Is(err, nats.ErrReconnectBufExceeded),
		errors.Is(err, jetstream.ErrStreamMessageExceedsMaximum), errors.Is(err, jetstream.ErrInvalidKey):
		return 0, fmt.Errorf("%w: %w", ErrNotWritten, s.failed(err))
	}
	return 0, s.failed(err)
}

// recheck is how often a watch asks whether the bucket is still the same: when
// a bucket is deleted its watches fall silent.
const recheck = 30 * time.Second

func (s *natsStore) Watch(ctx context.Context, key string) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		if err := s.watch(ctx, key, func(e Entry) bool { return yield(e, nil) }); err != nil {
			yield(Entry{}, err)
		}
	}
}

// watch returns nil when see has had enough.
func (s *natsStore) watch(ctx context.Context, key string, see func(Entry) bool) error {
	born, err := s.Bucket(ctx)
	if err != nil {
		return err
	}
	w, err := s.watcher(ctx, key)
	if err != nil {
		return s.failed(err)
	}
	defer func() {
		_ = w.Stop() // an error means that it has ended
		go func() {
			for range w.Updates() { // a delivery that is blocked would keep it from ending
			}
		}()
	}()
	tick := time.NewTicker(recheck)
	defer tick.Stop()
	for {
		select {
		case got, open := <-w.Updates():
			if !open {
				return errors.Join(context.Cause(ctx), errors.New("kv: the watch was closed"))
			}
			if !see(entryOf(got)) {
				return nil
			}
		case <-tick.C:
			if err := s.unchanged(ctx, born); err != nil {
				return err
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (s *natsStore) watcher(ctx context.Context, key string) (jetstream.KeyWatcher, error) {
	if key == "" {
		return s.values.WatchAll(ctx)
	}
	if err := s.fits(key); err != nil {
		return nil, err
	}
	return s.values.Watch(ctx, key)
}

func entryOf(got jetstream.KeyValueEntry) Entry {
	if got == nil {
		return Entry{Synced: true}
	}
	return Entry{Key: got.Key(), Value: got.Value(), Revision: got.Revision(), Created: got.Created(), Absent: got.Operation() != jetstream.KeyValuePut}
}

// unchanged passes over an outage: the watch goes on when it ends.
func (s *natsStore) unchanged(ctx context.Context, born Bucket) error {
	now, err := s.Bucket(ctx)
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		return err
	case err == nil && !now.Created.Equal(born.Created):
		return fmt.Errorf("kv: bucket %q was created anew", s.bucket)
	}
	return nil
}

// Bucket also finds a bucket that has become unsafe, or was created anew as one.
func (s *natsStore) Bucket(ctx context.Context) (Bucket, error) {
	info, err := s.stream.Info(ctx)
	if err != nil {
		return Bucket{}, s.failed(err)
	}
	return Bucket{Created: info.Created, Now: info.TimeStamp}, checkBucket(s.bucket, info.Config, s.replicas)
}

// maxSubject leaves room, in the 4 KiB that a server allows for a protocol
// line by default, for the rest of the line and for the longest API subject
// that a key is part of.
const maxSubject = 3 << 10

func (s *natsStore) fits(key string) error {
	if n := len(s.bucket) + len(key); n > maxSubject {
		return &tenure.Error{Code: tenure.ErrInvalid, Field: "resource", Why: fmt.Sprintf("its key in NATS has %d bytes, at most %d are allowed: use a shorter name", n, maxSubject)}
	}
	return nil
}

func (s *natsStore) failed(err error) error {
	why := "bucket %q does not answer"
	if errors.Is(err, jetstream.ErrStreamNotFound) || errors.Is(err, jetstream.ErrBucketNotFound) {
		why = "there is no bucket %q: create it with tenure kv init"
	}
	return &tenure.Error{Code: tenure.ErrUnavailable, Cause: err, Why: fmt.Sprintf(why, s.bucket)}
}
