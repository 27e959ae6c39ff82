// Package imagepull has what ImagePullJob, ImageListPullJob and NodeImage share: references of images, defaults and validation of how
// they are pulled, and the entries of a NodeImage. All of it is pure.
package imagepull
