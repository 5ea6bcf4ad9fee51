package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/tenurehq/tenure/internal/testenv"
)

// TestTheReadmesFirstScreenRunsAsPasted runs what stands between the markers of
// the README: the first block is one terminal, the second another. Each line
// "# → words" is what the command above it has to say.
func TestTheReadmesFirstScreenRunsAsPasted(t *testing.T) {
	t.Parallel()
	for _, tool := range []string{"bash", "curl", "go", "ip", "mount"} {
		if _, err := exec.LookPath(tool); err != nil {
			testenv.Need(t, tool)
		}
	}
	if os.Getuid() != 0 {
		testenv.Need(t, "root, for network namespaces")
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	terminals := firstScreen(t, filepath.Join(root, "README.md"))
	dir := t.TempDir()
	for i, name := range []string{"one.sh", "two.sh"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(terminals[i]), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p := &process{t: t, cmd: exec.Command("bash", "-c", twoTerminals, "bash", root, dir, t.TempDir()), done: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), "TENURE_ENGINE=", "TENURE_HOLDER=")
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.err
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS, Setpgid: true}
	p.begin()
	t.Cleanup(func() { _ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) })  // the server, too
	testenv.Eventually(t, 6*waitLong, "the end of the second terminal", p.ended) // it builds
	if a := p.ends(); a.code == noClone {
		testenv.Need(t, "overlay mounts ("+strings.TrimSpace(a.err)+")")
	}
	said, err := os.ReadFile(filepath.Join(dir, "two.out"))
	if err != nil {
		t.Fatal(err)
	}
	rest, checked := string(said), 0
	for line := range strings.Lines(terminals[1]) {
		_, want, ok := strings.Cut(strings.TrimSpace(line), "# → ")
		if !ok {
			continue
		}
		after, found := rest, true
		for part := range strings.SplitSeq(want, "…") { // what differs from run to run
			var has bool
			_, after, has = strings.Cut(after, part)
			found = found && has
		}
		if !found {
			t.Errorf("the second terminal does not say %q after what came before:\n%s", want, said)
		}
		rest, checked = after, checked+1
	}
	if checked < 3 {
		t.Errorf("the README expects %d outputs, at least the two writes and the refusal were thought of", checked)
	}
}

// noClone is the exit code of a machine that cannot make the place to run in.
const noClone = 97

// twoTerminals runs both where the repository seems to be, but what is written
// there goes to a scratch directory: the build finds its cache, and nothing is
// left behind. The ports are the README's, so it has a network of its own, too.
const twoTerminals = `root=$1 scripts=$2 scratch=$3
mount --make-rprivate / && mount -t tmpfs tenure-test "$scratch" && mkdir "$scratch/up" "$scratch/work" &&
	mount -t overlay tenure-test -o "lowerdir=$root,upperdir=$scratch/up,workdir=$scratch/work" "$root" &&
	cd "$root" && ip link set lo up || exit 97
bash "$scripts/one.sh" &
for port in 7070 7071; do
	until (exec 3<>/dev/tcp/127.0.0.1/$port) 2>/dev/null; do sleep 0.05; done
done
bash "$scripts/two.sh" >"$scripts/two.out"`

// firstScreen is the two blocks.
func firstScreen(t *testing.T, readme string) []string {
	t.Helper()
	b, err := os.ReadFile(readme)
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(b), "<!-- first-screen -->")
	text, _, _ = strings.Cut(text, "<!-- /first-screen -->")
	var blocks []string
	for _, part := range strings.Split(text, "```sh\n")[1:] {
		block, _, _ := strings.Cut(part, "```")
		blocks = append(blocks, block)
	}
	if len(blocks) != 2 {
		t.Fatalf("%s has %d sh blocks between its first-screen markers, not one for each terminal", readme, len(blocks))
	}
	return blocks
}
