package control

import "strings"

// NamePrefix returns the beginning of an object's name, of at most limit bytes, to which "-" and a suffix can be appended: it doesn't end with
// ".", because a part of a name can't begin with "-".
func NamePrefix(name string, limit int) string {
	return strings.TrimRight(name[:min(len(name), limit)], ".")
}
