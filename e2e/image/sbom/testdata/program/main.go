// Program is a small program with a dependency.
package main

import "github.com/google/go-containerregistry/pkg/v1/types"

func main() { println(types.OCILayer) }
