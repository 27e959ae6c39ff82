// Package skew says which versions of hub and member work together. Both ends ask it, so both come to the same answer.
//
// The rule: the same major version, and minor versions that differ by one at most, either way. So each side can be
// upgraded first, one minor version at a time, and rolled back. A build without a version of that form (vMAJOR.MINOR.PATCH,
// with or without a suffix) or with v0.0 is a development build; it works with all. So does a hub that does not say its
// version.
package skew
