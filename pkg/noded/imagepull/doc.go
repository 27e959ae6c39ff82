// Package imagepull contains what ImagePullJob, ImageListPullJob and NodeImage share: image references, defaults and validation of how images
// are pulled, and the entries of a NodeImage. All of it is pure.
package imagepull
