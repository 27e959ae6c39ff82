// Labimage compiles the project's programs for several architectures, builds
// images of them, and serves images to the lab's nodes:
//
//	labimage build                                the images of the release, into bin/images
//	labimage build --set test --archives bin      archives of the test images, for ctr to import
//	labimage push bin/images registry.example/me  an image layout to a registry
//	labimage serve --user lab --password secret   a registry that requires a password
//
// It runs in the repository, with go in the PATH.
package main
