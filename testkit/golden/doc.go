// Package golden compares the output of a test with a reviewed file. With the flag -update, which this package adds to every test
// binary that imports it, the file is written instead.
package golden
