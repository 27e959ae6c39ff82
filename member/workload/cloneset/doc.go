// Package cloneset runs CloneSets: a number of equal pods without fixed names, updated in place if only images or metadata change.
package cloneset
