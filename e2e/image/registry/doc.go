// Package registry is an image registry for tests that asks for a name and a
// password, as a private one does. It keeps layers in a folder and the rest in
// memory: a registry that is started again is empty. It speaks plain HTTP, and
// is no place for images that matter.
package registry
