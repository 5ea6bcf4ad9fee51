package testenv

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// RequireEnv names the variable that lists what must not be missing: words
// separated by commas, as tests give them to [Need], or "all". ./scripts/test
// sets it to "all".
const RequireEnv = "TENURE_REQUIRE"

// Need ends a test because what it needs is missing: the test is left out, and
// says so, or it fails where [RequireEnv] asks for what. Call it once the thing
// has been looked for and not found:
//
//	if _, err := exec.LookPath("iptables"); err != nil {
//		testenv.Need(t, "iptables")
//	}
//
// It is the only place in the repository that skips a test.
func Need(t testing.TB, what string) {
	t.Helper()
	if Required(what) {
		t.Fatalf("testenv: %s is missing, and %s=%q requires it", what, RequireEnv, os.Getenv(RequireEnv))
	}
	t.Skipf("testenv: left out: %s is missing (./scripts/test installs what is needed; %s=all fails instead)", what, RequireEnv)
}

// Required says whether [RequireEnv] asks for what.
func Required(what string) bool {
	asked := strings.Split(os.Getenv(RequireEnv), ",")
	return slices.ContainsFunc(asked, func(word string) bool {
		word = strings.TrimSpace(word)
		return word == "all" || word != "" && word == what
	})
}
