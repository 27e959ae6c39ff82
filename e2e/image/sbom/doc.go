// Package sbom says what a program that Go has compiled consists of: its modules
// and Go's own library, as the compiler has recorded them in the program, in the
// format CycloneDX.
//
// The same program gives the same bytes: there is no time and no random number
// in them. It does not know licenses, nor what else is in an image.
package sbom
