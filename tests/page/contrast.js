// The visible texts whose contrast with what is behind them is below a ratio (WCAG 2.2, 1.4.3).
(least) => {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgba = (color) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = color;
    canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const over = (top, below) => top.slice(0, 3).map((one, i) => one * top[3] + below[i] * (1 - top[3]));
  const behind = (node) => {
    const above = [];
    for (let at = node; at; at = at.parentElement) above.push(rgba(getComputedStyle(at).backgroundColor));
    return above.reverse().reduce((below, top) => over(top, below), [255, 255, 255]);
  };
  const light = (color) => color.map((one) => one / 255)
    .map((one) => (one <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4))
    .reduce((sum, one, i) => sum + one * [0.2126, 0.7152, 0.0722][i], 0);
  const found = new Map();
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode.parentElement;
    if (!walker.currentNode.textContent.trim() || !node.checkVisibility() || node.closest("svg, .unseen")) continue;
    const back = behind(node);
    const front = over(rgba(getComputedStyle(node).color), back);
    const [dark, bright] = [light(front), light(back)].sort((a, b) => a - b);
    const ratio = (bright + 0.05) / (dark + 0.05);
    if (ratio < least) found.set(`${node.className} ${node.tagName}`, `${ratio.toFixed(2)}: ${node.textContent.slice(0, 30)}`);
  }
  return [...found].map((one) => one.join(" "));
}
