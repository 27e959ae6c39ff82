package option

import (
	"fmt"
	"io"
	"os"

	"github.com/go-logr/logr"
	"github.com/go-logr/zapr"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// Logger returns the logger of the process. It writes to standard error.
func (m *Manager) Logger() logr.Logger { return m.logger(os.Stderr) }

func (m *Manager) logger(out io.Writer) logr.Logger {
	c := zap.NewProductionEncoderConfig()
	c.EncodeTime, c.EncodeLevel = zapcore.RFC3339TimeEncoder, level
	encoder := zapcore.NewJSONEncoder(c)
	if m.LogFormat == formatConsole {
		encoder = zapcore.NewConsoleEncoder(c)
	}
	core := zapcore.NewCore(encoder, zapcore.Lock(zapcore.AddSync(out)), zapLevel(m.LogLevel))
	return zapr.NewLogger(zap.New(core))
}

// level writes V(1) as debug, a level that log collectors know, and higher levels as v2, v3 and so on.
func level(l zapcore.Level, out zapcore.PrimitiveArrayEncoder) {
	if l < zapcore.DebugLevel {
		out.AppendString(fmt.Sprintf("v%d", -l))
		return
	}
	zapcore.LowercaseLevelEncoder(l, out)
}

// zapLevel converts logr's V into zap's levels, which are ordered the other way round.
func zapLevel(v int) zapcore.Level { return zapcore.Level(-min(v, maxLogLevel)) } //nolint:gosec // It is bounded to 0..10.
