package explore

import (
	"context"
	"errors"
	"os/exec"
	"strings"
	"testing"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/doccheck"
)

func TestNamesOfStepsAreShortAndShellSafe(t *testing.T) {
	for what, want := range map[string]string{
		"charge":                                   "charge",
		"take pay:7":                               "take-pay:7",
		"INSERT INTO charges VALUES ('7')":         "INSERT-INTO-charges",
		"write left=2; for order A":                "write-left-2",
		"SELECT * FROM \"orders\"":                 "SELECT-FROM-orders",
		"\u6263\u6b3e $1":                          "\u6263\u6b3e-1",
		"record " + strings.Repeat("very-long", 9): "record-very-longvery-longvery-lo",
	} {
		if got := short(what); got != want {
			t.Errorf("%q is %q, want %q", what, got, want)
		}
	}
}

func TestAPlanIsReadAsItIsWritten(t *testing.T) {
	const text = "pay/charge#2=crash; pay'/take-pay:7=yield"
	p, err := parse(text)
	if err != nil || p.String() != text {
		t.Errorf("%v, error %v", p, err)
	}
	out, err := exec.Command("sh", "-c", "printf %s "+quoted(text)).Output()
	if err != nil || string(out) != text {
		t.Errorf("a shell reads the plan as %s, %v", out, err)
	}
	for _, wrong := range []string{"pay", "pay/charge=explode", "a/b=crash;"} {
		if _, err := parse(wrong); err == nil {
			t.Errorf("%q is a plan", wrong)
		}
	}
}

// EXPLORE asks for one run. Its story is what the search told.
func TestAReplayIsOneRunWithThatFault(t *testing.T) {
	charges, runs := 0, 0
	scenario := func(w *World) {
		runs++
		charges = 0
		w.Deliver("pay", func(ctx context.Context, _ *guard.Guard) error {
			return w.Step(ctx, "charge", func() error { charges++; return nil })
		})
	}
	t.Setenv("EXPLORE", "pay/charge=crash")
	Test(t, scenario)
	if runs != 1 || charges != 2 {
		t.Errorf("%d runs, %d charges", runs, charges)
	}
}

// Each story ends with a page, which must be there.
func TestThePagesOfTheStoriesExist(t *testing.T) {
	pages, err := doccheck.Load("../..")
	if err != nil {
		t.Fatal(err)
	}
	links := func(to ...string) []string {
		text := "# Stories\n\n[x](" + strings.Join(to, ")\n[x](") + ")\n"
		return doccheck.BrokenLinks("../..", append(pages, doccheck.Parse("docs/stories.md", text)))
	}
	all := []string{(&result{}).page(), (&result{plan: plan{{"a/b", crash}}, stalled: true}).page()}
	all = append(all, (&result{lines: []line{{text: givesUp}}}).page())
	for _, k := range simplest {
		all = append(all, (&result{plan: plan{{"a/b", k}}, err: errors.New("broken")}).page())
	}
	if broken := links(all...); len(broken) > 0 {
		t.Errorf("broken: %v", broken)
	}
	if len(links("choosing.md#nowhere")) == 0 {
		t.Error("a broken link is not found")
	}
}

// Runs have the same trace if only steps that touch nothing in common change
// places.
func TestATraceKnowsWhichOrdersMatter(t *testing.T) {
	a, b, both := touched{"a"}, touched{"b"}, touched{"a", "b"}
	at := func(id string, touches touched) *gate {
		name, _, _ := strings.Cut(id, "/")
		return &gate{p: &process{name: name}, id: id, kinds: askKinds, touches: touches}
	}
	for name, c := range map[string]struct {
		first, second *gate
		did           kind // at the first
		same          bool
	}{
		"one key":                 {at("A/take", a), at("B/take", a), goOn, false},
		"two keys":                {at("A/take", a), at("B/take", b), goOn, true},
		"two steps outside":       {at("A/charge", outside), at("B/charge", outside), goOn, false},
		"a key, and outside":      {at("A/take", a), at("B/charge", outside), goOn, true},
		"one of two keys":         {at("A/take", both), at("B/take", b), goOn, false},
		"one key, a lost request": {at("A/take", a), at("B/take", a), lostRequest, true},
		"one key, a lost answer":  {at("A/take", a), at("B/take", a), lostAnswer, false},
		"one key, a pause":        {at("A/take", a), at("B/take", a), pause, true}, // the step comes at "wake"
		"outside, and a crash":    {at("A/take", a), at("B/charge", outside), crash, false},
		"one process":             {at("A/take", a), at("A/charge", outside), goOn, false},
		"all is forgotten":        {at("A/take", a), at("B/take", b), flush, false},
	} {
		one, other := trace{last: make(map[string]uint64)}, trace{last: make(map[string]uint64)}
		one.add(c.first, c.did)
		one.add(c.second, goOn)
		other.add(c.second, goOn)
		other.add(c.first, c.did)
		if same := one.sum == other.sum; same != c.same {
			t.Errorf("%s: the same trace in both orders: %t", name, same)
		}
	}
}
