package testkit_test

import (
	"fmt"
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// phrases are patterns that make a reader stumble, with what to write instead.
var phrases = map[string]string{
	`\b(is|are|was|were) (those|that) of\b`:                      "name the thing, or use its possessive: the pod's own",
	`\b(is|are) those that\b`:                                    "say what they are, in a sentence with a verb",
	`\bnot any ?more\b`:                                          "no longer",
	`\bso many\b[^.]* as\b`:                                      "at most N",
	`\bas many at a time as\b`:                                   "at most N at a time",
	`\bnil for (not|nothing|none)\b`:                             "nil means ...",
	`\b[Ee]mpty is none\b|\b(or|that|which|who) (is|are) none\b`: "say what an absent or invalid value means",
	`\bfor who\b`:                                                "for users who",
	`\bin another way\b`:                                         "otherwise, or name the way",
	`\bthe former\b`:                                             "the previous, the old",
	`\b(does|do) not let\b|\b(doesn't|don't) let\b`:              "doesn't allow",
	`\bgoes by\b`:                                                "is ordered by, uses",
	`\b1 (clusters|containers|images|jobs|nodes|objects|pods|replicas|rows|workloads)\b`: "1 pod, or a sentence in which the number doesn't matter",
}

// TestTextIsPlainEnglish looks for phrases in comments, strings and docs. What people read is written as the maintainers of Kubernetes write:
// the list holds what was once common here.
func TestTextIsPlainEnglish(t *testing.T) {
	t.Parallel()
	type pattern struct {
		*regexp.Regexp
		better string
	}
	var patterns []pattern
	for expr, better := range phrases {
		patterns = append(patterns, pattern{regexp.MustCompile(expr), better})
	}
	check := func(position, text string) {
		for _, p := range patterns {
			if found := p.FindString(text); found != "" {
				assert.Fail(t, fmt.Sprintf("%s: %q", position, found), p.better)
			}
		}
	}
	for _, root := range []string{"apis", "charts", "cmd", "docs", "e2e", "hub", "member", "pkg", "testkit"} {
		require.NoError(t, filepath.WalkDir(filepath.Join("..", root), func(path string, d fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case d.IsDir() && d.Name() == "testdata":
				return filepath.SkipDir
			case d.IsDir() || strings.HasPrefix(d.Name(), "zz_generated") || d.Name() == "phrases_test.go":
				return nil
			}
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			switch filepath.Ext(path) {
			case ".go":
				goTexts(path, text, check)
			case ".md", ".yaml", ".tpl", ".txt":
				for i, line := range strings.Split(string(text), "\n") {
					check(fmt.Sprintf("%s:%d", path, i+1), line)
				}
			}
			return nil
		}))
	}
}

// goTexts calls check for each comment and string of a Go file.
func goTexts(path string, source []byte, check func(position, text string)) {
	files := token.NewFileSet()
	file := files.AddFile(path, -1, len(source))
	var s scanner.Scanner
	s.Init(file, source, nil, scanner.ScanComments)
	for {
		pos, kind, text := s.Scan()
		if kind == token.EOF {
			return
		}
		if kind == token.COMMENT || kind == token.STRING {
			check(files.Position(pos).String(), text)
		}
	}
}
