// Package registry is an image registry for tests that requires a name and a
// password, as a private one does. It keeps layers in a folder and the rest in
// memory: a registry that is restarted is empty. It uses plain HTTP, and
// is not meant for production.
package registry
