// Package sbom describes the parts of a compiled Go program: its modules and Go's standard library, as recorded in the program by the
// compiler. The format is CycloneDX.
//
// The same program gives the same bytes: they contain no time and no random number. Licenses, and anything else in an image, are not covered.
package sbom
