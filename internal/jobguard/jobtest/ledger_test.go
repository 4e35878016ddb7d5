package jobtest

import "testing"

func TestTwoAtOnceAreFound(t *testing.T) {
	for name, c := range map[string]struct {
		events []event
		wrong  bool
	}{
		"one after the other": {[]event{
			{enter, "a", "k", "1"},
			{done, "a", "k", "1"},
			{enter, "b", "k", "2"},
			{failed, "b", "k", "2"},
			{enter, "b", "k", "2"},
			{done, "b", "k", "2"},
		}, false},
		"two keys": {[]event{{enter, "a", "k", "1"}, {enter, "b", "l", "2"}}, false},
		"after a death": {[]event{
			{enter, "a", "k", "1"},
			{killed, "a", "-", "-"},
			{enter, "b", "k", "2"},
		}, false},
		"told of the loss":    {[]event{{enter, "a", "k", "1"}, {enter, "b", "k", "2"}, {lost, "a", "k", "1"}}, false},
		"two at once":         {[]event{{enter, "a", "k", "1"}, {enter, "b", "k", "2"}}, true},
		"the same job twice":  {[]event{{enter, "a", "k", "1"}, {enter, "b", "k", "1"}}, true},
		"within one worker":   {[]event{{enter, "a", "k", "1"}, {enter, "a", "k", "2"}}, true},
		"another is dead":     {[]event{{enter, "a", "k", "1"}, {killed, "c", "-", "-"}, {enter, "b", "k", "2"}}, true},
		"the other ends late": {[]event{{enter, "a", "k", "1"}, {enter, "b", "k", "2"}, {done, "a", "k", "1"}}, true},
	} {
		if err := judge(c.events); (err != nil) != c.wrong {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestAJobThatWasDoneTwiceIsFound(t *testing.T) {
	for name, c := range map[string]struct {
		events []event
		wrong  bool
	}{
		"once each": {[]event{{done, "a", "k", "1"}, {done, "b", "k", "2"}}, false},
		"twice":     {[]event{{done, "a", "k", "1"}, {done, "b", "k", "1"}}, true},
		"again":     {[]event{{done, "a", "k", "1"}, {done, "a", "k", "1"}}, true},
		"after a death": {[]event{
			{done, "a", "k", "1"}, {killed, "a", "-", "-"}, {done, "b", "k", "1"},
		}, false},
		"long before a death": {[]event{
			{done, "a", "k", "1"}, {done, "a", "k", "2"}, {killed, "a", "-", "-"}, {done, "b", "k", "1"},
		}, true},
	} {
		if err := judgeOnce(c.events); (err != nil) != c.wrong {
			t.Errorf("%s: got %v", name, err)
		}
	}
}
