// Labimage compiles the project's programs for several architectures, builds images from them, and serves images to the lab's nodes:
//
//	labimage build                                build the images of the release in bin/images
//	labimage build --set test --archives bin      build archives of the test images, for ctr to import
//	labimage push bin/images registry.example/me  push an image layout to a registry
//	labimage serve --user lab --password secret   run a registry that requires a password
//
// Run it in the repository, with go in the PATH.
package main
