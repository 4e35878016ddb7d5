package fencetest

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/go-lockguard/guard/internal/doccheck"
)

// Every SQL statement of the documents runs on the databases that the comment
// above it names. Without a comment it runs on all of them. The other databases
// must refuse it.

const root = "../.."

// args are the arguments of each statement. A statement without an entry here
// is not tested, and that is a failure.
var args = map[string][]any{
	"UPDATE stock SET n = n - 1 WHERE sku = $1 AND n > 0":                                     {"lamp"},
	"UPDATE stock SET n = n - 1 WHERE sku = $1":                                               {"lamp"},
	"UPDATE articles SET body = $1, version = version + 1 WHERE id = $2 AND version = $3":     {"text", "a1", 1},
	"UPDATE articles SET owner = $1, until = $2 WHERE id = $3 AND (owner = $1 OR until < $4)": {"ann", 900, "a1", 600},
	"SELECT body, version FROM articles WHERE id = $1":                                        {"a1"},
	"INSERT INTO accounts (email) VALUES ($1) ON CONFLICT (email) DO NOTHING":                 {"ann@example.com"},
	"INSERT IGNORE INTO accounts (email) VALUES (?)":                                          {"ann@example.com"},
	"INSERT INTO requests (id) VALUES ($1) ON CONFLICT DO NOTHING":                            {"r1"},
	"INSERT INTO charges VALUES ('7')":                                                        {},
	"INSERT IGNORE INTO requests (id) VALUES (?)":                                             {"r1"},
	"SELECT id, payload FROM jobs ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED":                 nil,
	"UPDATE stock SET n = $1 WHERE sku = $2":                                                  {5, "lamp"},
	"UPDATE stock SET n = n - 1, fence = $1 WHERE sku = $2 AND fence <= $1 AND n > 0":         {int64(9), "lamp"},
	"UPDATE stock SET n = n - 1, fence = $1 WHERE sku = $2 AND fence <= $1 AND n >= 1":        {int64(9), "lamp"},
	"UPDATE balances SET cents = cents - $1 WHERE id = $2":                                    {5, "ann"},
}

const stocked = 3

// tablesOfTheDocuments are the tables that the statements use. All three
// databases know their types.
var tablesOfTheDocuments = []string{
	"CREATE TABLE stock (sku VARCHAR(40) PRIMARY KEY, n INTEGER NOT NULL, fence BIGINT NOT NULL DEFAULT 0)",
	"CREATE TABLE charges (id VARCHAR(40) PRIMARY KEY)",
	"CREATE TABLE accounts (email VARCHAR(40) PRIMARY KEY)",
	"CREATE TABLE balances (id VARCHAR(40) PRIMARY KEY, cents BIGINT NOT NULL)",
	"CREATE TABLE requests (id VARCHAR(40) PRIMARY KEY)",
	"CREATE TABLE jobs (id INTEGER PRIMARY KEY, payload VARCHAR(40) NOT NULL)",
	"CREATE TABLE articles (id VARCHAR(40) PRIMARY KEY, body VARCHAR(40) NOT NULL, version INTEGER NOT NULL, " +
		"owner VARCHAR(40) NOT NULL DEFAULT '', until BIGINT NOT NULL DEFAULT 0)",
	fmt.Sprintf("INSERT INTO stock (sku, n) VALUES ('lamp', %d)", stocked),
	"INSERT INTO jobs (id, payload) VALUES (1, 'a'), (2, 'b'), (3, 'c')",
	"INSERT INTO articles (id, body, version) VALUES ('a1', '', 1)",
}

func makeTables(t *testing.T, db *sql.DB) {
	t.Helper()
	t.Cleanup(func() {
		tables := []string{"stock", "accounts", "balances", "requests", "jobs", "articles", "charges", "fences"}
		for _, table := range tables {
			if _, err := db.ExecContext(context.WithoutCancel(t.Context()), "DROP TABLE IF EXISTS "+table); err != nil {
				t.Error(err)
			}
		}
	})
	for _, statement := range tablesOfTheDocuments {
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
}

// A statement of a document, for some databases.
type statement struct {
	place string
	text  string
	on    []string // names of databases
}

var (
	isSQL    = regexp.MustCompile(`^(SELECT|INSERT|UPDATE|DELETE|CREATE|ALTER|DROP|WITH)\s`)
	quoted   = regexp.MustCompile("`([^`]+)`|\"([^\"]+)\"")
	names    = regexp.MustCompile(`PostgreSQL|MySQL|MariaDB|SQLite`)
	comment  = regexp.MustCompile(`^\s*(//|--)\s*(.*)`)
	numbered = regexp.MustCompile(`\$(\d)`)
)

// statementsOf returns the SQL in the code of a page and in the code spans of
// its text. Code with ... in it is prose.
func statementsOf(p *doccheck.Page) (found []statement) {
	add := func(line int, text, label string) {
		if !isSQL.MatchString(text) || strings.Contains(text, "...") {
			return
		}
		on := names.FindAllString(label, -1)
		if len(on) == 0 {
			on = []string{"PostgreSQL", "MySQL", "MariaDB", "SQLite"}
		}
		found = append(found, statement{fmt.Sprintf("%s:%d", p.Path, line), text, on})
	}
	for _, s := range p.Sections {
		for _, m := range quoted.FindAllStringSubmatch(s.Prose, -1) {
			add(s.Line, m[1], "")
		}
		for _, b := range s.Blocks {
			label := ""
			for i, line := range strings.Split(b.Text, "\n") {
				if m := comment.FindStringSubmatch(line); m != nil {
					label = m[2]
					continue
				}
				add(b.Line+i, strings.TrimSpace(line), label)
				for _, m := range quoted.FindAllStringSubmatch(line, -1) {
					add(b.Line+i, m[1]+m[2], label)
				}
				if !strings.HasSuffix(line, "(ctx,") { // goes on in the next line
					label = ""
				}
			}
		}
	}
	return found
}

// problem returns how the statement differs on d from its label, or nothing.
func (s statement) problem(ctx context.Context, d database) string {
	given, known := args[s.text]
	if !known {
		return "not tested: give it arguments"
	}
	err := d.try(ctx, s.text, given)
	switch wanted := slices.Contains(s.on, d.name); {
	case wanted && err != nil:
		return err.Error()
	case !wanted && err == nil:
		return "it runs, and is not labelled so"
	}
	return ""
}

// try runs a statement and rolls it back. Only PostgreSQL numbers its
// parameters.
func (d database) try(ctx context.Context, text string, given []any) error {
	tx, err := d.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	if d.name != "PostgreSQL" {
		var each []any
		for _, m := range numbered.FindAllStringSubmatch(text, -1) {
			each = append(each, given[m[1][0]-'1'])
		}
		if each != nil {
			text, given = numbered.ReplaceAllString(text, "?"), each
		}
	}
	rows, err := tx.QueryContext(ctx, text, given...)
	if err != nil {
		return err
	}
	for rows.Next() { // an error may come with the first row only
	}
	_ = rows.Close()
	return rows.Err()
}

func TestEveryStatementOfTheDocumentsRunsWhereItSays(t *testing.T) {
	pages, err := doccheck.Load(root)
	if err != nil {
		t.Fatal(err)
	}
	comments, err := docComment("../../fence/sqlfence/sqlfence.go")
	if err != nil {
		t.Fatal(err)
	}
	tested := map[string]bool{}
	var all []statement
	for _, p := range append(pages, comments) {
		all = append(all, statementsOf(p)...)
	}
	for _, d := range databases {
		makeTables(t, d.db)
		for _, s := range all {
			tested[s.text] = true
			if slices.Contains(s.on, "MySQL") != slices.Contains(s.on, "MariaDB") {
				t.Errorf("%s: labelled for one of MySQL and MariaDB: only MariaDB is tested", s.place)
			}
			if problem := s.problem(t.Context(), d); problem != "" {
				t.Errorf("%s, on %s: %s\n%s", s.place, d.name, problem, s.text)
			}
		}
	}
	for text := range args {
		if !tested[text] {
			t.Errorf("in no document: %s", text)
		}
	}
}

// docComment returns the code in the comments of a Go file, as a page.
func docComment(file string) (*doccheck.Page, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var page strings.Builder
	page.WriteString("```go\n")
	for line := range strings.Lines(string(text)) {
		code, _ := strings.CutPrefix(line, "//\t")
		if code == line {
			code = "\n"
		}
		page.WriteString(code)
	}
	page.WriteString("```\n")
	return doccheck.Parse(file, page.String()), nil
}

// These are former faults of the documents, and labels that are wrong.
func TestAWrongStatementPlantedInADocumentIsFound(t *testing.T) {
	for _, d := range databases {
		makeTables(t, d.db)
	}
	const page = "```go\n%sres, err := db.ExecContext(ctx, `%s`, sku)\n```\n"
	for _, c := range []struct {
		name, label, text string
		given             []any
		on                []string // where it must be found
	}{
		{
			"a reserved word", "", "UPDATE stock SET left = left - 1 WHERE sku = $1 AND left > 0",
			[]any{"lamp"},
			[]string{"PostgreSQL", "MariaDB", "SQLite"},
		},
		{
			"of one database, not labelled", "", "INSERT INTO requests (id) VALUES ($1) ON CONFLICT DO NOTHING",
			[]any{"r1"},
			[]string{"MariaDB"},
		},
		{
			"clauses in another order", "", "SELECT id FROM jobs ORDER BY id FOR UPDATE SKIP LOCKED LIMIT 1", nil,
			[]string{"MariaDB", "SQLite"},
		},
		{
			"a label that forgets one", "// PostgreSQL, SQLite\n", "UPDATE stock SET n = $1",
			[]any{5},
			[]string{"MariaDB"},
		},
		{
			"a label that names one too many", "// PostgreSQL, MySQL, MariaDB\n",
			"INSERT IGNORE INTO requests (id) VALUES (?)",
			[]any{"r1"},
			[]string{"PostgreSQL"},
		},
		{"one without arguments", "", "DELETE FROM stock", nil, []string{"PostgreSQL", "MariaDB", "SQLite"}},
	} {
		if c.given != nil || strings.HasPrefix(c.text, "SELECT") {
			if _, known := args[c.text]; !known {
				args[c.text] = c.given
				defer delete(args, c.text)
			}
		}
		found := statementsOf(doccheck.Parse("planted.md", fmt.Sprintf(page, c.label, c.text)))
		if len(found) != 1 {
			t.Fatalf("%s: %d statements found", c.name, len(found))
		}
		var on []string
		for _, d := range databases {
			if found[0].problem(t.Context(), d) != "" {
				on = append(on, d.name)
			}
		}
		if !slices.Equal(on, c.on) {
			t.Errorf("%s: found on %q, want %q", c.name, on, c.on)
		}
	}
}
