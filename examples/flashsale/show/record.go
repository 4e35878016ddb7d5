package show

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
)

// A record is the page in one file, with everything in it that it would have
// been told: its scripts play that instead of listening.

// frozenPolicy allows what is in the file, and nothing from elsewhere.
const frozenPolicy = `<meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:">`

var (
	styleTag  = regexp.MustCompile(`<link rel="stylesheet" href="([^"]+)">`)
	scriptTag = regexp.MustCompile(`<script src="([^"]+)" defer></script>`)
)

// recordTo writes the page with these messages frozen in it.
func recordTo(w io.Writer, messages []json.RawMessage) error {
	html, err := pageFiles.ReadFile("page/index.html")
	if err != nil {
		return err
	}
	var scripts bytes.Buffer
	html = inline(html, styleTag, func(text []byte) []byte { return wrap("<style>", text, "</style>") })
	html = inline(html, scriptTag, func(text []byte) []byte {
		scripts.Write(wrap("<script>", text, "</script>\n")) // they run once the page is there, as with defer
		return nil
	})
	frozen, err := json.Marshal(messages) // escapes <, so that no text ends the element
	if err != nil {
		return err
	}
	html = bytes.Replace(html, []byte("<head>"), []byte("<head>\n"+frozenPolicy), 1)
	end := wrap(`<script type="application/json" id="frozen">`, frozen, "</script>\n"+scripts.String()+"</body>")
	html = bytes.Replace(html, []byte("</body>"), end, 1)
	_, err = w.Write(html)
	return err
}

// inline puts the embedded files that tags name in their place.
func inline(html []byte, tag *regexp.Regexp, as func(text []byte) []byte) []byte {
	return tag.ReplaceAllFunc(html, func(found []byte) []byte {
		text, err := pageFiles.ReadFile("page/" + string(tag.FindSubmatch(found)[1]))
		if err != nil {
			panic(err) // embedded
		}
		return as(text)
	})
}

func wrap(before string, text []byte, after string) []byte {
	return append(append([]byte(before), text...), after...)
}

// recordFile writes the record to a file.
func recordFile(name string, messages []json.RawMessage) error {
	var page bytes.Buffer
	if err := recordTo(&page, messages); err != nil {
		return err
	}
	return os.WriteFile(name, page.Bytes(), 0o600)
}

// recordSale plays one sale as the page would show it, writes the page, and
// returns the result.
func recordSale(ctx context.Context, cfg config, con *console) (result, error) {
	var res *result
	h := newHub()
	st := newStage(ctx, cfg, h, func(r result) { res = &r })
	con.printf("recording a sale: mode %s, %s requests for %s items\n", cfg.mode,
		thousands(cfg.requests), thousands(cfg.stock))
	if err := st.start(cfg, 0); err != nil {
		return result{}, err
	}
	st.close()
	if res == nil {
		messages := h.messages()
		var last update
		_ = json.Unmarshal(messages[len(messages)-1], &last) // ours
		return result{}, errors.New(last.Error)
	}
	if err := recordFile(cfg.record, h.messages()); err != nil {
		return *res, fmt.Errorf("-record: %w", err)
	}
	con.printf("the page with this sale in it is %s\n", cfg.record)
	return *res, nil
}

// openRecord makes sure that the file can be written before anything is played.
func openRecord(name string) error {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY, 0o600) //nolint:gosec // the file that the user names
	if err != nil {
		return fmt.Errorf("-record: %w", err)
	}
	return f.Close()
}
