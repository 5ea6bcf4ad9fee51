package fence

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tenurehq/tenure"
)

const order = tenure.Resource("orders/42")

func token(lsn tenure.LSN) tenure.Token {
	return tenure.Token{Lease: tenure.LeaseID{LSN: lsn}, Epoch: 1}
}

func opened(t *testing.T, dir string) *file {
	t.Helper()
	s, err := File(dir)
	if err != nil {
		t.Fatal(err)
	}
	return s.(*file)
}

func TestT7_TheMarkOutlivesItsProcess(t *testing.T) {
	dir := t.TempDir()
	if err := Check(t.Context(), opened(t, dir), order, token(10)); err != nil {
		t.Fatal(err)
	}
	s := opened(t, dir)
	if err := Check(t.Context(), s, order, token(9)); !errors.Is(err, tenure.ErrStale) {
		t.Errorf("lower: %v", err)
	}
	if err := Check(t.Context(), s, order, token(10)); err != nil {
		t.Errorf("equal: %v", err)
	}
}

// syncs records what was synced, and fails from the failing one on.
type syncs struct {
	names []string
	fail  int // 0 = none, 1 = the first, …
}

func (s *syncs) sync(f *os.File) error {
	s.names = append(s.names, filepath.Base(f.Name()))
	if s.fail > 0 && len(s.names) >= s.fail {
		return errors.New("input/output error")
	}
	return f.Sync()
}

func TestT11_AMarkIsDurableBeforeTheWorkBegins(t *testing.T) {
	dir := t.TempDir()
	f := opened(t, dir)
	var seen syncs
	f.sync = seen.sync
	err := f.Do(t.Context(), order, token(10), func(context.Context) error {
		got := strings.Join(seen.names, " ")
		if want := "mark.next orders%2f42 " + filepath.Base(dir); got != want {
			t.Errorf("synced %q before the work, want %q", got, want)
		}
		if mark, err := readMark(filepath.Join(dir, "orders%2f42", "mark"), order); mark != token(10) || err != nil {
			t.Errorf("on disk: %v, %v", mark, err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	seen.names = nil
	if err := Check(t.Context(), f, order, token(10)); err != nil || len(seen.names) != 0 {
		t.Errorf("the same token again: %v, synced %q", err, seen.names)
	}
}

// Whatever a failed sync has left behind is found by the next look at it, and
// must not pass for durable: not here, not in another process, not after a
// restart.
func TestT11_AMarkWhoseSyncFailedIsWrittenAgainBeforeItCounts(t *testing.T) {
	for fail := 1; fail <= 3; fail++ {
		dir := t.TempDir()
		f, peer := opened(t, dir), opened(t, dir)
		for _, s := range []*file{f, peer} { // both have seen the resource before
			if err := Check(t.Context(), s, order, token(9)); err != nil {
				t.Fatal(err)
			}
		}
		fresh := fail == 3
		if fresh { // the third sync is that of the parent, for a new resource only
			dir = t.TempDir()
			f, peer = opened(t, dir), opened(t, dir)
		}
		broken := syncs{fail: fail}
		f.sync = broken.sync
		ran := false
		err := f.Do(t.Context(), order, token(10), func(context.Context) error { ran = true; return nil })
		if err == nil || ran {
			t.Fatalf("sync %d failed, and the work ran: %v (%v)", fail, ran, err)
		}
		f.sync = (*os.File).Sync
		for name, s := range map[string]*file{"here": f, "in another process": peer, "after a restart": opened(t, dir)} {
			var seen syncs
			s.sync = seen.sync
			if err := Check(t.Context(), s, order, token(10)); err != nil || len(seen.names) < 2 || seen.names[0] != "mark.next" {
				t.Errorf("sync %d failed, and %s it passed with %v, synced %q", fail, name, err, seen.names)
			}
		}
	}
}

func TestAMarkThatWasDamagedLetsNothingPass(t *testing.T) {
	dir := t.TempDir()
	f := opened(t, dir)
	if err := Check(t.Context(), f, order, token(10)); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "orders%2f42", "mark")
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	refused := func(what string, content []byte) {
		t.Helper()
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		for _, s := range []*file{f, opened(t, dir)} {
			if err := Check(t.Context(), s, order, token(1000)); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), path) {
				t.Fatalf("%s: %v, want damaged, and where", what, err)
			}
		}
	}
	for i := range good {
		for bit := range 8 {
			bad := append([]byte(nil), good...)
			bad[i] ^= 1 << bit
			refused("a flipped bit", bad)
		}
		refused("a truncated mark", good[:i])
	}
	refused("something appended", append(append([]byte(nil), good...), '\n'))
	refused("the mark of another resource", []byte(formatMark("orders/43", token(10))))
	refused("another version", []byte(strings.Replace(string(good), "fence 1", "fence 2", 1)))
	refused("a large file", make([]byte, 1<<20))
	if err := os.WriteFile(path, good, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Check(t.Context(), f, order, token(10)); err != nil {
		t.Errorf("repaired: %v", err)
	}
}

// A restored backup, say. Whoever saw more knows that somebody has, and cannot
// know whether others saw more still.
func TestT7_AnOlderMarkThatIsPutBackLetsNothingPass(t *testing.T) {
	dir := t.TempDir()
	f := opened(t, dir)
	path := filepath.Join(dir, "orders%2f42", "mark")
	check := func(lsn tenure.LSN) error { return Check(t.Context(), f, order, token(lsn)) }
	if err := check(5); err != nil {
		t.Fatal(err)
	}
	old, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := check(10); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, old, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, lsn := range []tenure.LSN{4, 5, 7, 10, 11} {
		if err := check(lsn); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), path) {
			t.Errorf("token %d: %v, want damaged, and where", lsn, err)
		}
	}
	if mark, err := os.ReadFile(path); err != nil || string(mark) != string(old) {
		t.Errorf("the mark was changed to %q (%v)", mark, err)
	}
	if err := os.Remove(path); err != nil { // to forget
		t.Fatal(err)
	}
	if err := check(5); err != nil {
		t.Errorf("deleted: %v", err)
	}
	if err := check(4); !errors.Is(err, tenure.ErrStale) {
		t.Errorf("deleted, and seen anew: %v", err)
	}
}

func TestWhatACrashLeftBehindIsInNobodysWay(t *testing.T) {
	dir := t.TempDir()
	f := opened(t, dir)
	if err := Check(t.Context(), f, order, token(10)); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"mark.next", "running", "turn"} {
		if err := os.WriteFile(filepath.Join(dir, "orders%2f42", name), []byte(strings.Repeat("garbage ", 2000)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	for _, lsn := range []tenure.LSN{10, 11} {
		err := f.Do(ctx, order, token(lsn), func(ctx context.Context) error {
			return Check(ctx, opened(t, dir), order, token(lsn)) // side by side under one token
		})
		if err != nil {
			t.Errorf("%d: %v", lsn, err)
		}
	}
}

// A process that is killed at work is not waited for, and its mark stands.
func TestAProcessThatIsKilledAtWorkBlocksNobody(t *testing.T) {
	if dir := os.Getenv("FENCE_TEST_DIR"); dir != "" {
		err := Check(t.Context(), opened(t, dir), order, token(9))
		if err == nil {
			err = opened(t, dir).Do(t.Context(), order, token(10), func(context.Context) error {
				os.Stdout.WriteString("at work\n")
				select {}
			})
		}
		t.Fatal(err)
	}
	dir := t.TempDir()
	child := exec.Command(os.Args[0], "-test.run=^TestAProcessThatIsKilledAtWorkBlocksNobody$")
	child.Env = append(os.Environ(), "FENCE_TEST_DIR="+dir)
	out, err := child.StdoutPipe()
	if err == nil {
		err = child.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { child.Process.Kill() })
	line := make([]byte, len("at work\n"))
	if _, err := out.Read(line); err != nil || string(line) != "at work\n" {
		t.Fatalf("the child said %q (%v)", line, err)
	}
	f := opened(t, dir)
	waits := make(chan error, 1)
	go func() { waits <- Check(context.Background(), f, order, token(11)) }()
	select {
	case err := <-waits:
		t.Fatalf("a newer token did not wait for the child: %v", err)
	default:
	}
	child.Process.Kill()
	child.Wait()
	if err := <-waits; err != nil {
		t.Error(err)
	}
	if err := Check(t.Context(), f, order, token(10)); !errors.Is(err, tenure.ErrStale) {
		t.Errorf("the child's token: %v", err)
	}
}

func TestFileRefusesWhatIsNoDirectory(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{path, filepath.Join(path, "below"), filepath.Join(dir, "no", "parent")} {
		if _, err := File(bad); err == nil || !strings.Contains(err.Error(), bad) {
			t.Errorf("%s: %v", bad, err)
		}
	}
	f := opened(t, filepath.Join(dir, "gone"))
	if err := os.Remove(filepath.Join(dir, "gone")); err != nil {
		t.Fatal(err)
	}
	if err := Check(t.Context(), f, order, token(1)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a directory that was removed: %v", err)
	}
}

func TestNamesOfDirectoriesDifferOnEveryFileSystem(t *testing.T) {
	long := strings.Repeat("x", 300)
	seen := map[string]tenure.Resource{}
	for _, r := range []tenure.Resource{
		"a/b", "a/B", "A/b", "a/b%2f", "a/b/", "a/.", "a/..", "a/\u00dc", "a/\u00fc",
		tenure.Resource("a/" + long), tenure.Resource("a/" + long + "y"), tenure.Resource("a/" + long + "Y"),
	} {
		name := dirName(r)
		if same := seen[strings.ToLower(name)]; same != "" || len(name) > 255 || filepath.Base(name) != name {
			t.Errorf("%q is kept in %q, like %q", r, name, same)
		}
		seen[strings.ToLower(name)] = r
	}
}

func TestWhatIsRememberedOfSyncsIsBounded(t *testing.T) {
	f := opened(t, t.TempDir())
	for i := range maxSure {
		f.sure[tenure.Resource("a/"+string(rune(i)))] = token(1)
	}
	if err := Check(t.Context(), f, order, token(1)); err != nil || len(f.sure) > maxSure {
		t.Errorf("%v, %d remembered", err, len(f.sure))
	}
}
