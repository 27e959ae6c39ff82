// Package golden compares what a test made with a file that people have looked at. With the flag -update, which this
// package gives to every test binary that imports it, the file is written instead.
package golden
