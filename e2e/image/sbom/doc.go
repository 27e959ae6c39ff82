// Package sbom writes SBOMs in CycloneDX format for programs compiled by Go. They list the modules that the compiler recorded in the program,
// and Go's standard library.
//
// The same program gives the same bytes, without a time or a random number. Licenses and other files of an image are not covered.
package sbom
