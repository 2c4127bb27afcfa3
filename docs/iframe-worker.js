// Search in a site that is opened as a file: browsers refuse workers there, so the worker's script runs in a hidden frame.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(address) {
      super()
      const frame = document.createElement("iframe")
      frame.hidden = true
      document.documentElement.append(frame)
      const inside = frame.contentWindow
      inside.postMessage = data => this.dispatchEvent(new MessageEvent("message", { data }))
      this.inside = new Promise(loaded => {
        const script = frame.contentDocument.createElement("script")
        script.src = address
        script.onload = () => loaded(inside)
        frame.contentDocument.body.append(script)
      })
    }
    postMessage(data) {
      this.inside.then(inside => inside.dispatchEvent(new inside.MessageEvent("message", { data })))
    }
  }
}
